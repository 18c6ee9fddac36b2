# shellcheck shell=bash
# Steps a second, one step a call, 16 clients; each outcome is durable before its call returns. The engine commits an
# outcome and takes the next step in one call; the yardstick's two statements are two transactions.
fresh bench_single
single_function() { steps_side gen_durable.instances 16 1 $((STEPS_A_RUN / 10)) single_function -D 'outcomes=[]'; }
single_call() { steps_side gen_durable.instances 16 1 $((STEPS_A_RUN / 10)) single_call -D first=1; }
single_yardstick() { steps_side yardstick.instances 16 1 $((STEPS_A_RUN / 10)) single_yardstick -D id=0; }

pairs "$PAIRS" single_function single_yardstick
report_pairs "single: complete_and_take" '>=' 1.5 "steps/s"
report_cpu
pairs "$PAIRS" single_call single_yardstick
report_pairs "single: commit_and_take" '>=' 1.5 "steps/s"
report_cpu

# The same with a queue that the scheduler feeds: what is taken was claimed before.
single_fed() { single_function; }
q "SELECT gen_durable.set_queue('bench', concurrency => 16, prefetch => 64)" >/dev/null
pairs "$PAIRS" single_fed single_yardstick
report_pairs "single: complete_and_take, fed" '>=' 1.5 "steps/s"
report_cpu
