-- The TAP tests' fixture: a set of instances in every state, an image of the tables, invariants, and a way to the end.

CREATE SCHEMA rig;

CREATE FUNCTION rig.id(name text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT min(i.id) FROM gen_durable.instances i WHERE i.fsm = $1;
$$;

CREATE FUNCTION rig.token(name text) RETURNS uuid LANGUAGE sql STABLE AS $$
  SELECT i.token FROM gen_durable.instances i WHERE i.id = rig.id($1);
$$;

-- One outcome as complete_many and its kin take it.
CREATE FUNCTION rig.entry(name text, outcome jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_array($2 || jsonb_build_object('token', rig.token($1)));
$$;

-- Instances in every state: free, held (with a key), twin (waits for that key), parked, due (its deadline has passed),
-- late (its lease has), top with kid and kit executing, end1..end4 executing, ended (cancelled).
CREATE PROCEDURE rig.prepare(q text DEFAULT 'q') LANGUAGE plpgsql AS $$
DECLARE n text;
BEGIN
  PERFORM gen_durable.insert('free' || f, queue => q || '-free') FROM generate_series(1, 3) f;
  PERFORM gen_durable.insert('held', queue => q, concurrency_key => 'key', correlation_key => 'name');
  PERFORM gen_durable.insert('twin', queue => q || '-free', concurrency_key => 'key');
  FOREACH n IN ARRAY ARRAY['parked', 'due', 'top', 'end1', 'end2', 'end3', 'end4'] LOOP
    PERFORM gen_durable.insert(n, queue => q);
  END LOOP;
  PERFORM gen_durable.pick(q, 'w', 20, '1 hour');
  PERFORM gen_durable.insert('late', queue => q);
  PERFORM gen_durable.pick(q, 'w', 20, '0');
  PERFORM gen_durable.complete(rig.token('parked'), gen_durable.await_signal(ARRAY['go'], 'woke'));
  PERFORM gen_durable.complete(rig.token('due'), gen_durable.await_signal(ARRAY['go'], 'woke', timeout => '1 microsecond'));
  PERFORM gen_durable.complete(rig.token('top'), gen_durable.schedule_children('joined',
    jsonb_build_array(jsonb_build_object('fsm', 'kid', 'queue', q || '-kids'), jsonb_build_object('fsm', 'kit', 'queue', q || '-kids'))));
  PERFORM gen_durable.pick(q || '-kids', 'w', 20, '1 hour');
  PERFORM gen_durable.insert('ended', queue => q || '-ended');
  PERFORM gen_durable.cancel(rig.id('ended'));
  PERFORM gen_durable.signal(rig.id('held'), 'early', dedup_key => 'once');
  PERFORM gen_durable.register_fsm('machine', queue => q);
END $$;

-- Runs in every state, of tenants x and y and of none.
CREATE PROCEDURE rig.prepare_runs() LANGUAGE plpgsql AS $$
BEGIN
  PERFORM gen_durable.run_insert('tenant:x', n, 'graph', 'hash', convert_to('document of ' || n, 'UTF8'), '2020-01-01', started_at => '2020-01-01')
    FROM unnest(ARRAY['poisoned', 'claimed']) n;
  PERFORM gen_durable.run_claim_due(10, '0', 1, now => '2020-01-02');
  UPDATE gen_durable.runs SET claim_attempts = 0 WHERE run_id = 'claimed';
  PERFORM gen_durable.run_claim_due(10, '0', 1, now => '2020-01-03');
  PERFORM gen_durable.run_insert(CASE n WHEN 'of y' THEN 'tenant:y' ELSE 'tenantless' END, n, 'graph', 'hash', '\x00ff27', '2020-01-01')
    FROM unnest(ARRAY['ready', 'of y', 'waiting', 'done']) n;
  PERFORM gen_durable.run_insert('tenant:x', 'sleeps', 'graph', 'hash', '', '2999-01-01');
  PERFORM gen_durable.run_commit_unclaimed('system', 'waiting', 1, 'parked', 'external', 'waiting', 3, decode(repeat('ab', 5000), 'hex'));
  PERFORM gen_durable.run_commit_unclaimed('system', 'done', 1, 'ended', 'terminal', 'done', 9, 'last');
END $$;

CREATE FUNCTION rig.image() RETURNS SETOF text LANGUAGE sql STABLE AS $$
  SELECT * FROM (SELECT 'instance ' || i::text FROM gen_durable.instances i ORDER BY i.id) x
  UNION ALL SELECT * FROM (SELECT 'signal ' || s::text FROM gen_durable.signals s ORDER BY s.id) x
  UNION ALL SELECT * FROM (SELECT 'fsm ' || f::text FROM gen_durable.fsms f ORDER BY f.name, f.version) x
  UNION ALL SELECT * FROM (SELECT 'queue ' || q::text FROM gen_durable.queues q ORDER BY q.name) x
  UNION ALL SELECT * FROM (SELECT 'config ' || c::text FROM gen_durable.bucket_configs c ORDER BY c.kind, c.name) x
  UNION ALL SELECT * FROM (SELECT 'bucket ' || b::text FROM gen_durable.buckets b ORDER BY b.kind, b.key, b.shard) x
  UNION ALL SELECT * FROM (SELECT 'run ' || r::text FROM gen_durable.runs r ORDER BY r.id) x
  UNION ALL SELECT * FROM (SELECT 'tenant ' || t::text FROM gen_durable.run_tenants t ORDER BY t.role, t.tenant) x;
$$;

-- Signals that a claim was handed, noted by whoever parks on their names again.
CREATE TABLE rig.handed (id bigint, signals bigint[]);

-- Every invariant that does not hold, with a row that breaks it.
CREATE FUNCTION rig.broken() RETURNS TABLE (what text, id bigint) LANGUAGE sql STABLE AS $$
  SELECT 'a claim is incomplete, or left behind', i.id FROM gen_durable.instances i
   WHERE (i.status = 'executing') <> (i.token IS NOT NULL AND i.locked_by IS NOT NULL AND i.lease_expires_at IS NOT NULL)
      OR i.status <> 'executing' AND (i.token IS NOT NULL OR i.locked_by IS NOT NULL OR i.lease_expires_at IS NOT NULL)
  UNION ALL
  SELECT 'a key is held twice', min(i.id) FROM gen_durable.instances i
   WHERE i.status = 'executing' AND i.concurrency_shard IS NULL AND i.concurrency_key IS NOT NULL
   GROUP BY i.concurrency_key HAVING count(*) > 1
  UNION ALL
  SELECT 'finished_at and the status disagree', i.id FROM gen_durable.instances i
   WHERE (i.status IN ('done', 'failed', 'cancelled')) <> (i.finished_at IS NOT NULL)
  UNION ALL
  SELECT 'a join is miscounted', p.id FROM gen_durable.instances p
   WHERE p.status = 'awaiting_children'
     AND (p.children_pending < 1 OR p.children_pending <>
          (SELECT count(*) FROM gen_durable.instances c
            WHERE c.parent_id = p.id AND c.joins_barrier = p.barrier AND c.status NOT IN ('done', 'failed', 'cancelled')))
  UNION ALL
  SELECT 'a signal of an instance that has ended, or is gone', s.target_id FROM gen_durable.signals s
    LEFT JOIN gen_durable.instances i ON i.id = s.target_id WHERE i.id IS NULL OR i.finished_at IS NOT NULL
  UNION ALL
  SELECT 'parked over a signal that it was not handed', i.id FROM gen_durable.instances i
   WHERE i.status = 'awaiting_signal' AND EXISTS (SELECT 1 FROM gen_durable.signals s
     WHERE s.target_id = i.id AND s.consumed_at IS NULL AND s.name = ANY (i.awaits) AND NOT EXISTS (SELECT 1 FROM rig.handed h WHERE h.id = i.id AND s.id = ANY (h.signals)))
  UNION ALL
  SELECT 'blocked, and not runnable', i.id FROM gen_durable.instances i WHERE i.blocked_on IS NOT NULL AND i.status <> 'runnable'
  UNION ALL
  SELECT 'the guard is held out of scope', i.id FROM gen_durable.instances i
   WHERE i.correlation_guard IS NOT NULL AND i.status <> ALL (i.correlation_scope);
$$;

-- Runs everything that is there to its end, whatever it waits for; returns how many instances still live.
CREATE FUNCTION rig.finish(rounds int DEFAULT 100) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  q text;
  live bigint;
BEGIN
  PERFORM set_config('gen_durable.clock_offset', '36000000', true);
  FOR round IN 1 .. rounds LOOP
    PERFORM gen_durable.tick();
    PERFORM gen_durable.signal(i.id, i.awaits[1]) FROM gen_durable.instances i WHERE i.status = 'awaiting_signal';
    FOR q IN SELECT DISTINCT i.queue FROM gen_durable.instances i WHERE i.status = 'runnable' LOOP
      PERFORM count(*) FROM gen_durable.complete_many(coalesce(
        (SELECT jsonb_agg(gen_durable.done() || jsonb_build_object('token', j.token)) FROM gen_durable.pick(q, 'finisher', 1000) j), '[]'));
    END LOOP;
    SELECT count(*) INTO live FROM gen_durable.instances i WHERE i.status NOT IN ('done', 'failed', 'cancelled');
    EXIT WHEN live = 0;
  END LOOP;
  RETURN live;
END $$;
