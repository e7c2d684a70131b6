"""English."""

PHRASES = {
    "and": "{names} and {last}",
    "and_others": "{names} and others",
    "quoted": "{text}",
    "in_function": ", in {function}(){module}",
    "in_module": " of module {module}",
    "no_place": "the program",
    # -- what happened
    "symptom": "the {what} is {value}",
    "symptom_step": "the {what} is {value} from step {step} on",
    "loss": "loss",
    "output": "output {name}",
    "gradient": "gradient of {name}",
    "gradient_plain": "gradient",
    "parameter": "parameter {name}",
    "cause_failed": "{symptom}. The cause is at {place}{where}: {title}.",
    "cause_silent": (
        "Nothing that the program uses is NaN or inf, but the numbers are not what they should be. The cause is at {place}{where}: {title}."
    ),
    "cause_plain": "The numbers are not what they should be. The cause is at {place}{where}: {title}.",
    "cause_latent": "This run went well, but another one need not. The weak point is at {place}{where}: {title}.",
    "cause_foretold": (
        "As it is, the program runs well. In the narrower number format that you asked about it would not, because of "
        "{place}{where}: {title}."
    ),
    "cause_warning": "Nothing fails, but the results cannot be relied on. The cause is at {place}{where}: {title}.",
    "line": "The line reads: {code}",
    "mechanism": "Why this hurts: {what}",
    "measured": "Measured: {text}.",
    # -- what followed
    "spreads": "From this line it spreads {steps}.",
    "to_loss": "to the loss, which is {value} ({place})",
    "to_outputs": "to the output {names}, which is {value}",
    "to_gradients": "in the backward pass to the gradients of {names} ({value})",
    "to_gradient_of": "in the backward pass to the gradient of {names} ({value})",
    "to_gradient": "in the backward pass to a gradient ({value})",
    "to_parameters": "with the optimizer's step to the parameters {names} ({value})",
    "to_parameter": "with the optimizer's step to the parameter {names} ({value})",
    "then": ", then ",
    # -- how sure it is
    "proof_step": (
        "To be sure, numdebug repeated the failing step. Unchanged, it fails the same way; with {what} repaired and nothing else "
        "changed, {result}."
    ),
    "proof_step_line": "line {lines}",
    "proof_step_lines": "lines {lines}",
    "proof_step_data": "the data",
    "all_finite": "the loss and every gradient are finite",
    "all_finite_loss": "the loss is {loss} and every gradient is finite",
    "output_finite": "the output is finite",
    "failure_gone": "the failure is gone",
    "proof_agrees": (
        "The repair changes no correct result: where the original line gives a number, the repaired one gives the same in float64 "
        "(to within {error})."
    ),
    "proof_agrees_exactly": (
        "The repair changes no correct result: where the original line gives a number, the repaired one gives the same in float64, "
        "bit for bit."
    ),
    "proof_lines": (
        "numdebug repeated the failing step. With lines {lines} repaired together the failure is gone; with only one of them "
        "repaired it is not."
    ),
    "proof_program": "To be sure, numdebug ran the program again {change}: {result}.",
    "proof_program_losses": (
        "To be sure, numdebug ran the program again {change}: {result}, and the loss goes from {first} to {last}."
    ),
    "with_repair": "with this change ({repair}) and nothing else",
    "with_rate": "with the learning rate times {factor} and nothing else changed",
    "fails_finite": "what failed before is now finite",
    "fails_finite_steps": "all {steps} steps are finite",
    "harm_gone": "the harm is gone",
    "proof_wider": (
        "numdebug repeated the step: as written, it gives the same wrong result again; with only {lines} computed in float64, "
        "{what} is right to within {error} of its size."
    ),
    "consumed": "the result",
    "proof_seeds": (
        "numdebug started the program several times. As it is, the runs give different numbers; with this change ({repair}) all "
        "{count} compared numbers are the same, bit for bit."
    ),
    "proof_derivative": (
        "{framework}'s own derivative of the same forward pass agrees with the numerical differences; this backward does not."
    ),
    "proof_change": "With that one change ({change}) all {count} random checks of the gradient agree.",
    "proof_unchanged": (
        "After {steps} steps these parameters are still what they were before the first one, bit for bit, and they never got a "
        "gradient, although the loss is computed from them."
    ),
    "proof_unread": (
        "They are bit for bit what they were before the first of {steps} steps although the backward pass gives them a gradient of "
        "norm {norm}: nothing updates them."
    ),
    "proof_update": (
        "numdebug repeated the update on the recorded numbers. In float64 it moves all {all} elements; rounded to {format}, {lost} "
        "of them stay what they were."
    ),
    "proof_overwritten": (
        "With the value from before the overwriting write, and nothing else changed, the gradient differs by {share}% of its norm."
    ),
    "proof_memory": (
        "numdebug repeated the recorded operations with other left-overs in this memory: the result changed. With the same "
        "left-overs it did not."
    ),
    "proof_unscaled": (
        "With the loss scale of {scale} taken off first, the same limit would leave a norm {times} times larger than the one that "
        "the optimizer got."
    ),
    "proof_sum": "The same updates in float64 do move the sum, each by {share} of it.",
    "proof_equal": (
        "numdebug computed both sides again in float64: they agree in all {missed} places where this comparison says they do not."
    ),
    "proof_apart": "Before this operation the same numbers are still different, and float64 holds them all apart.",
    "proof_quotient": "The same operations in float64, at the same points, give {exact} where {format} gives {seen}.",
    "proof_same_memory": (
        "The {times} arrays are one and the same memory, which was written {writes} times; they are equal bit for bit."
    ),
    "proof_whole": (
        "Numerical differences of the loss in float64 give {numeric} along a random direction; the backward pass gives {analytic}."
    ),
    "proof_still": "A repair of this line alone was tried and does not cure it: {what} would still not be finite.",
    "the_loss": "the loss",
    "some_gradients": "{bad} of {all} gradients",
    "proof_other": "How it was checked: {text}.",
    "failed_other": "The repair was tried, and is not enough by itself: {text}.",
    "untried": "This is what the recorded numbers say; no repair was tried on it ({text}).",
    "untried_norepair": "This is what the recorded numbers say. There is no repair of a single line that numdebug could have tried.",
    "untried_other": "No repair of this was tried: another change already cures the program.",
    "untried_written": (
        "This is what the recorded numbers say. The change could not be written into the program, so it was not tried."
    ),
    "untried_rerun": (
        "This is what the recorded numbers say. Trying the repair needs a second run of the program, which --no-rerun forbids."
    ),
    # -- what to do
    "fix_patch": "{fix}. The patch below does that; `git apply` takes it in the program's folder.",
    "fix_words": "{fix}. There is no ready patch; the change has to be made by hand, at or near {place}.",
    "fix_none": "{fix}.",
    "check_partly": (
        "Run `{command}` after the change. By itself it does not cure the step: "
        "repair what that run names next, too, until the step is finite."
    ),
    "check_failed": "Run `{command}` after the change: this finding must be gone, and the step that failed must be finite.",
    "check_failed_step": (
        "Run `{command}` after the change: this finding must be gone, and the numbers must stay finite past step {step}."
    ),
    "check_silent": "Run `{command}` after the change: {place} must no longer be reported.",
    "check_losses": "The loss should then go about as it did in the trial, from {first} to {last}.",
    "more": "`numdebug bug {bug}` has the details.",
    # -- what else
    "another": "A further finding, at {place}{where}: {title}.",
    "another_measured": "Measured there: {text}.",
    "rest": "There are more findings; the report lists them all.",
    "ruled_follows": "Also considered: {title}. It is not the cause: with the repair above it disappears, too.",
    "ruled_consequence": "Also seen: {title}. It is a consequence of the cause above.",
    "ruled_later": "Also considered: {title}. It comes later in the computation, so it cannot be the origin.",
    "ruled_other": "Also considered: {title}. It was ruled out: {text}.",
    "looked": "Also looked for, and not found: {topics}.",
    "looked_clean": "What was looked for: {topics}.",
    "topic_range": "overflow, underflow and NaN",
    "topic_digits": "lost digits",
    "topic_gradients": "wrong, missing, vanishing or exploding gradients",
    "topic_training": "training mistakes (learning rate, inputs of the loss, order of the rows, training mode in evaluation)",
    "topic_repeat": "randomness that no seed fixes",
    "hazard": "A hazard that did no harm in this run is at {place}{where}: {title}.",
    "guessed": "The program does not call its model itself, so numdebug called {call}.",
    "note": "Note: {text}.",
    # -- nothing found
    "clean": "Nothing wrong was found in {path}: {seen}.",
    "seen_backward": "{steps} training steps ({ops} operations) were observed, forward and backward",
    "seen_backward_one": "one step ({ops} operations) was observed, forward and backward",
    "seen_forward": "{steps} steps ({ops} operations) were observed, forward only",
    "seen_forward_one": "one forward pass ({ops} operations) was observed",
    "no_proof": "That is no proof that there is nothing: it holds for the inputs, the seed and the length of this run.",
    "short": "The run was cut short ({why}); what would have come later was not seen.",
    "next_gradients": (
        "To look further, run `{command} --check-gradients`: it compares every gradient with numerical differences in float64."
    ),
    "next_float16": "To look further, run `{command} --as float16`: it says what would happen in half precision.",
    "next_longer": "To look further, let it run longer (--max-steps, --timeout) or with other data.",
    "ended_raised": "The program did not end well, though: it raised {error}{where}{message}.",
    "ended_badly": "The program did not end well, though: {why}.",
    # -- nothing seen
    "raised": (
        "Nothing could be said about the numbers: {path} raised {error}{where}{message} before it computed a forward or backward "
        "pass."
    ),
    "raised_do": "Mend that first; then run `{command}` again.",
    "at_line": " at {place}",
    "message": " ({text})",
    "missing": "{path} could not start: it needs the module {module}, which is not installed here.",
    "missing_do": "Install it with `{install}` and run `{command}` again.",
    "slow": "Nothing could be said about the numbers: {path} was stopped before it computed a forward or backward pass ({why}).",
    "slow_do": "Give it more time (--timeout SECONDS), or less to do before its first step.",
    "interrupted": "Nothing could be said about the numbers: {path} was interrupted before it computed a forward or backward pass.",
    "interrupted_do": "Run `{command}` again and let it reach its first step.",
    "ended": "Nothing could be said about the numbers: {path} ended before it computed a forward or backward pass ({why}).",
    "ended_do": "Find out why it ends there; if it expects arguments, give them after `--`. Then run `{command}` again.",
    "uncalled": (
        "{path} ran to its end without computing a forward or backward pass: it only defines functions and models, and none could "
        "be called."
    ),
    "uncalled_do": "Say what to call and with which input: `{call}`.",
    "unexplained": (
        "{symptom} from step {step} on. It was first made at {place} by {op} ({how}), but no bug that numdebug knows explains it."
    ),
    "unexplained_do": "Look at what goes into {place}; and please report it, for this is a case that numdebug should know.",
    "unrecorded": "{symptom} from step {step} on, but that step could not be recorded.",
    "unrecorded_do": "Fix every seed in the program, so that a second run repeats the step, and do not use --no-rerun.",
    "left_out": "{symptom} from step {step} on; what was found was left out, as you asked (--select or --ignore).",
    "left_out_do": "Run `{command}` without --select and --ignore to see it.",
    "other": "{text}.",
    # -- comparisons
    "same": "Computed two ways ({a} | {b}), the numbers are the same, bit for bit.",
    "differ_explained": "Computed two ways ({a} | {b}), the numbers are not the same, but that is no bug: {why}.",
    "differ_real": "{a} and {b} compute different things: {why}.",
    "why_rounding-difference": "rounding in another order explains the difference",
    "why_dtype-mismatch": "they compute in different number formats, and the coarser one accounts for the difference",
    "why_reduced-precision-matmul": "matrix products with narrower operands account for the difference",
    "why_flush-to-zero": "one side turns subnormal numbers (the tiniest ones of the format) into 0, and that is all that differs",
    "why_nondeterminism": "sums are taken in another order in every run",
    "why_real": "the difference is larger than rounding explains",
    "why_other": "{text}",
    "figures": (
        "In {output}, {differing} of {size} elements differ, by {largest} at most ({ulps} ulp of {format}; an ulp is the step "
        "between neighbouring floats)."
    ),
    "rounding_allows": "That is {ratio} times the usual rounding error of this computation, as is to be expected.",
    "rounding_times": "That is {ratio} times what rounding explains.",
    "predicted": "This was computed from the recorded operations, not run on such a device.",
    "parted": "They part at {op} ({places}): {what}.",
    "parted_argument": "{argument} of {op} is {was} on one side and {now} on the other",
    "parted_proof": "This was tried: {text}.",
    "goes_with": "The difference disappears with {how}.",
    "tolerance": "In a test, allow for it: `{assertion}`",
    "compare_check": "Make both sides the same there and run the same `numdebug compare` again: only rounding may remain.",
}
