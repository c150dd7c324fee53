"""Holding laws, arrows, derivatives and costs against random examples."""
