# shellcheck shell=bash
# Steps a second, batches of 100, 4 clients: claim 100, then commit 100 outcomes "next", each call a durable transaction of
# its own. What was claimed goes to the client and comes back from it, on all three sides.
fresh bench_steps
steps_engine() { steps_side gen_durable.instances 4 100 "$STEPS_A_RUN" steps_engine; }
steps_yardstick() { steps_side yardstick.instances 4 100 "$STEPS_A_RUN" steps_yardstick; }
steps_floor() { steps_side floor.instances 4 100 "$STEPS_A_RUN" steps_floor; }

pairs "$PAIRS" steps_engine steps_yardstick
report_pairs "steps: engine : yardstick" '>=' 1.4 "steps/s"
report_cpu
pairs "$PAIRS" steps_engine steps_floor
report_pairs "steps: engine : floor" '>=' 0.85 "steps/s"
report_cpu
