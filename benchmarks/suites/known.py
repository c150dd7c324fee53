"""Tests of the suites that pass under JAX's derivatives and not under ours: by name and by what becomes of it, why."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Reason:
    """Why tests do not pass: those of these names, or patterns of names, as long as this, one of `KINDS`, becomes of
    them."""

    why: str
    kinds: tuple[str, ...]
    names: str

    def holds(self, name: str, kind: str) -> bool:
        """Whether this is why a test of this name is of this kind."""
        return kind in self.kinds and any(fnmatchcase(name, pattern) for pattern in self.names.split())


KNOWN = {
    "jax": (
        Reason(
            "it reads JAX's programs, tracers, residuals or logs, or counts traces",
            ("internals", "assertion"),
            """test_basic_*vjp3 test_fsdp_* test_vjp3_* test_structured_residuals_* test_remat_* test_dce_jaxpr_scan_*
            *_with_logs* test_grad_of_jit_compilation_caching2 test_linearize_caching test_name_stack_annotation
            test_closure_convert_mixed_consts testReluGrad testSwitchResidualsMerge testWhereExtraCode
            test_scan_vjp_forwards_extensive_residuals test_scan_diff_of_print test_leak_checker_remat3_*""",
        ),
        Reason(
            "it exchanges the constants of a program, and the rule of a function in it keeps its own",
            ("wrong value",),
            "test_dce_jaxpr_scan_const_in_jvp",
        ),
        Reason(
            "a pullback has no places of JAX's for residuals, and a Ref is no argument that varies",
            ("refusal",),
            "test_saveable_args_* test_vjp3_ref_arg_needs_with_refs_errors",
        ),
        Reason(
            "its operation cannot be compiled, without a rule for XLA, or a type with its parameters: jit fails alike",
            ("refusal", "raw error"),
            """test_remat_eval_counter test_remat_recursive_checkpoint_recompute_counts
            test_deferred_primal_with_direct_linearize""",
        ),
        Reason(
            "it keeps residuals of jax_remat3, a setting that JAX tries out, in the memory of the host",
            ("refusal",),
            "test_remat_offload_*",
        ),
        Reason(
            "the zero of an integer is an integer, and no float0",
            ("assertion",),
            """test_float0 test_float0_error test_float0_reshape test_float0_initial_style test_grad_of_bool*
            test_grad_of_int test_grad_of_int_index test_jit_grad_of_int test_j?p_of_* test_jit_j?p_of_int
            test_vjp_of_int_* test_jit_vjp_of_int""",
        ),
        Reason(
            "a typed error of the same kind, and another text",
            ("other error", "assertion"),
            """test_bad_input test_grad_bad_input test_grad_and_aux_error test_grad_complex_result_errors
            test_grad_object_array_error test_grad_of_int_errors test_holomorphic_* test_jacfwd_of_complex_errors
            test_jvp_mismatched_arguments test_jvp_non_tuple_arguments test_jvp_rule_doesnt_return_pair_error_message
            test_unwrapped_numpy test_vjp_bad_cotangent_shape test_vjp_mismatched_arguments
            test_vjp_multiple_arguments_error_message test_vjp_too_many_args test_bwd_rule_shape_mismatch
            test_escaped_tracers_cant_lift test_grad_nonscalar_output test_grad_tuple_output test_grad_unit_output
            test_issue_871 test_grad_nonscalar_output_hint test_grad_wrt_ref_arg_error
            test_unimplemented_interpreter_rules test_jvp_rule_primal_out_type_* test_fwd_rule_primal_out_type_*""",
        ),
        Reason(
            "a typed error of another kind: a rule depends on a value that it captured, or on one that is not known",
            ("other error",),
            """test_closed_over_tracers_error_message test_nondiff_arg_hiding_jvp_tracer
            test_nondiff_arg_nested_tracer_error""",
        ),
        Reason(
            "there is a value, and it is right: custom_vjp forwards, x.at[i].apply, names, while, what a trace left",
            ("no error",),
            """test_jvp_error test_forward_mode_error test_scatter_apply_* test_grad_without_enough_args_error_message
            test_escaped_tracers_not_among_input_tracers test_escaped_tracers_cant_lift testWhileGradError_*
            test_leak_checker_catches_linearize_tracer_escape""",
        ),
        Reason(
            "the number 1 is a tangent of 1.0",
            ("no error",),
            "test_linearize_aval_error",
        ),
        Reason(
            "JAX runs rules on Python's numbers, or asks for the type after NumPy has computed; ours are traced",
            ("assertion", "refusal"),
            "test_symbolic_zero_custom_* test_python_control_flow test_python_control_flow_bwd",
        ),
        Reason(
            "a cotangent has the dtype of its primal",
            ("assertion",),
            "test_excess_precision_hell testGatherTransposeCotangentDtype",
        ),
        Reason(
            "its rule gives another type than its function, which JAX does not check",
            ("refusal",),
            "test_hard_stuff2 test_jvp_closure test_custom_lin_pretty_print",
        ),
        Reason(
            "linear_transpose wants arrays or ShapeDtypeStructs, and numbers that vary",
            ("refusal", "other error"),
            "test_linear_transpose_abstract test_linear_transpose_integer test_linear_transpose_error",
        ),
        Reason(
            "it has an effect whose order matters",
            ("refusal",),
            "test_scan_diff_of_print test_grad_of_token_consuming_primitive",
        ),
        Reason(
            "a branch for another platform has no derivative: JAX refuses the same inside of jit",
            ("refusal",),
            "test_platform_dependent_with_non_existent_custom_call",
        ),
        Reason(
            "a rule captured what jax.vmap maps around it",
            ("refusal",),
            "test_closure_with_vmap2",
        ),
    ),
    "autograd": (
        Reason(
            "the gradient by a list without numbers is asked for",
            ("refusal",),
            "test_isinstance",
        ),
    ),
    "equinox": (
        Reason(
            "it counts traces in a variable outside, and what writes there is traced at each call",
            ("assertion",),
            "test_grad_jit_new test_grad_jit_old",
        ),
        Reason(
            "its results have to be JAX's own tracers, so it gets JAX's jvp",
            ("no derivative",),
            "test_filter_jvp test_double_filter_jvp",
        ),
        Reason(
            "a result of Python's numbers is an array of JAX's, with the same value",
            ("wrong value",),
            "test_filter_custom_jvp_no_kwargs test_filter_custom_jvp_kwargs test_nondiff_back",
        ),
        Reason(
            "its operation has a rule for transposing that contradicts the one for tangents, which counts",
            ("wrong value",),
            "test_vprim",
        ),
        Reason("it has an effect whose order matters", ("refusal",), "test_grad_text_progress_meter"),
        Reason(
            "a rule raises an error when the function has run, and the function waits for it",
            ("no error",),
            "test_unperturbed_output",
        ),
    ),
}


def reason(suite: str, test: str, kind: str) -> str | None:
    """Why a test is of a kind other than "pass", if that is known."""
    name = test.rpartition("::")[2].partition("[")[0]
    return next((known.why for known in KNOWN.get(suite, ()) if known.holds(name, kind)), None)
