# shellcheck shell=bash
# Choosing shards: steps a second, batches of 100, 4 clients, as limits has them, with every row under one hot gate of 1,000
# slots, in so many shards, against rows without limits. There is no bar: docs/shards.md says which number is right.
fresh bench_shards
q "CREATE FUNCTION bench.limited() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN NEW.concurrency_key := 'gate'; RETURN NEW; END \$\$;
  CREATE TRIGGER limited BEFORE INSERT ON gen_durable.instances FOR EACH ROW EXECUTE FUNCTION bench.limited()"

shards_side() { # ENABLE|DISABLE
  q "ALTER TABLE gen_durable.instances $1 TRIGGER limited"
  steps_side gen_durable.instances 4 100 "$STEPS_A_RUN" steps_engine
}
shards_gate() { shards_side ENABLE; }
shards_none() { shards_side DISABLE; }

for shards in ${BENCH_SHARDS:-1 2 4 8 16 64 512}; do
  q "SELECT gen_durable.set_concurrency_limit('gate', 1000, $shards)" >/dev/null
  pairs "$PAIRS" shards_gate shards_none
  report_pairs "shards: a gate in $shards : none" '>=' 0 "steps/s"
  rm -f "$WORK"/cpu.*
done
