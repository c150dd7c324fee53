"""Terms are made shorter by the oriented laws."""
