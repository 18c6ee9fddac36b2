# shellcheck shell=bash
# Limits counted in a Redis server on this machine, over a Unix socket, against limits counted in tables: steps a second,
# batches of 100, 4 clients, every row under one hot gate of 1,000 slots (in tables 8 shards), or one hot rate limit whose
# tokens never run out. Each side begins with a start of the server, which fixes where limits are counted. There is no bar:
# Redis is for limits that several databases share.
command -v redis-server >/dev/null || die "this needs redis-server"
as_server mkdir "$WORK/redis"
start redis-server --port 0 --unixsocket "$WORK/redis/socket" --save '' --dir "$WORK/redis" >"$WORK/redis/log"
REDIS_PID=$STARTED
fresh bench_redis
q "SELECT gen_durable.set_concurrency_limit('gate', 1000, 8), gen_durable.set_rate_limit('rate', 2000000000, '1 s', shards => 8)" >/dev/null
q "ALTER SYSTEM SET gen_durable.redis_url = 'unix://$WORK/redis/socket'"
q "ALTER SYSTEM SET gen_durable.redis_lease = '2s'"

redis_side() { # LIMITER COLUMN VALUE SCRIPT
  local tries=0
  q "ALTER SYSTEM SET gen_durable.limiter = '$1'"
  server_stop
  server_start
  until [ "$(q "SELECT count(*) FROM gen_durable.admit('[{\"id\": 1, \"rate\": {\"key\": \"rate\"}}]') WHERE admitted")" = 1 ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 200 ] || die "limits in Redis admit nothing"
    sleep 0.1
  done
  q "CREATE OR REPLACE FUNCTION bench.limited() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN NEW.$2 := '$3'; RETURN NEW; END \$\$;
    CREATE OR REPLACE TRIGGER limited BEFORE INSERT ON gen_durable.instances FOR EACH ROW EXECUTE FUNCTION bench.limited()"
  steps_side gen_durable.instances 4 100 "$STEPS_A_RUN" "$4"
}
redis_gate() { redis_side redis concurrency_key gate steps_engine; }
table_gate() { redis_side table concurrency_key gate steps_engine; }
redis_rate() { redis_side redis rate_limit rate steps_rate; }
table_rate() { redis_side table rate_limit rate steps_rate; }

pairs "$PAIRS" redis_gate table_gate
report_pairs "redis: one hot gate : in tables" '>=' 0 "steps/s"
pairs "$PAIRS" redis_rate table_rate
report_pairs "redis: one hot rate : in tables" '>=' 0 "steps/s"
q "ALTER SYSTEM RESET gen_durable.limiter"
server_stop
server_start
kill "$REDIS_PID"
wait "$REDIS_PID" || true
unset "RUNNING[$REDIS_PID]"
