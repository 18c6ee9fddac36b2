-- A workload with a ledger: parents that fan out, join, await a signal and end; children of three steps, some of them
-- with a shared key, some that retry once. Every committed outcome has its row in rig.ledger, in the same transaction.

CREATE TABLE rig.ledger (n bigserial, id bigint, fsm text, step text, kind text, token uuid);

-- What a step does next.
CREATE FUNCTION rig.outcome(fsm text, step text, id bigint, attempt int, children int) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT CASE $1 || ' ' || $2
    WHEN 'top start' THEN gen_durable.schedule_children('joined', (SELECT jsonb_agg(jsonb_build_object('fsm', 'kid', 'queue', 'load',
      'concurrency_key', CASE WHEN n % 5 = 0 THEN 'key' || n % 3 END)) FROM generate_series(1, 20) n))
    WHEN 'top joined' THEN gen_durable.await_signal(ARRAY['go'], 'published')
    WHEN 'top published' THEN gen_durable.done(jsonb_build_object('children', $5))
    WHEN 'kid start' THEN gen_durable.next_step('two')
    WHEN 'kid two' THEN CASE WHEN $3 % 7 = 0 AND $4 = 0 THEN gen_durable.retry() ELSE gen_durable.next_step('three') END
    WHEN 'kid three' THEN CASE WHEN $3 % 11 = 0 THEN gen_durable.stop('by number') ELSE gen_durable.done() END
  END;
$$;

-- The crashes of these tests are not the machines' fault: no step is given up for them.
CREATE PROCEDURE rig.load(tops int) LANGUAGE sql AS $$
  SELECT gen_durable.register_fsm(name, queue => 'load', max_crashes => NULL) FROM unnest(ARRAY['top', 'kid']) name;
  SELECT count(*) FROM gen_durable.insert_all('top', (SELECT jsonb_agg(jsonb_build_object('queue', 'load', 'priority', n % 3)) FROM generate_series(1, tops) n));
$$;

-- One batch of a worker that uses complete_many: the ledger has what the engine says it committed; returns those tokens.
CREATE FUNCTION rig.batch(worker text, size int, lease interval) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  picked jsonb;
  tokens text;
BEGIN
  SELECT jsonb_agg(to_jsonb(j) - 'state' ORDER BY j.id) INTO picked FROM gen_durable.pick('load', worker, size, lease) j;
  IF picked IS NULL THEN
    RETURN '';
  END IF;
  WITH job AS MATERIALIZED (
    SELECT o.ord, j.id, j.fsm, j.step, j.token,
           rig.outcome(j.fsm, j.step, j.id, j.attempt, jsonb_array_length(j.children))
             || jsonb_build_object('token', j.token) AS outcome
      FROM jsonb_array_elements(picked) WITH ORDINALITY o (e, ord),
           jsonb_to_record(o.e) AS j (id bigint, fsm text, step text, attempt int, children jsonb, token uuid)),
  result AS MATERIALIZED (
    SELECT r.ord, r.result FROM gen_durable.complete_many((SELECT jsonb_agg(job.outcome ORDER BY job.ord) FROM job)) r),
  entry AS (
    INSERT INTO rig.ledger (id, fsm, step, kind, token)
    SELECT job.id, job.fsm, job.step, job.outcome ->> 'outcome', job.token
      FROM job JOIN result USING (ord) WHERE result.result = 'committed'
    RETURNING rig.ledger.token)
  SELECT coalesce(string_agg(entry.token::text, ' '), '') INTO tokens FROM entry;
  RETURN tokens;
END $$;

-- What the ledger and the instances say of each other, once all have ended: nothing, when all is well.
CREATE FUNCTION rig.audit(tops int) RETURNS SETOF text LANGUAGE sql STABLE AS $$
  SELECT format('%s instances live', count(*)) FROM gen_durable.instances WHERE finished_at IS NULL HAVING count(*) > 0
  UNION ALL
  SELECT format('%s %s committed %s times', l.id, l.step, count(*)) FROM rig.ledger l
   GROUP BY l.id, l.step, l.kind = 'retry' HAVING count(*) > 1
  UNION ALL
  SELECT format('%s of %s tops', count(*), tops) FROM gen_durable.instances WHERE fsm = 'top' HAVING count(*) <> tops
  UNION ALL
  SELECT format('%s of %s kids', count(*), tops * 20) FROM gen_durable.instances WHERE fsm = 'kid' HAVING count(*) <> tops * 20
  UNION ALL
  SELECT format('%s %s ended %s with outcomes of %s steps', i.id, i.fsm, i.status, count(DISTINCT l.step))
    FROM gen_durable.instances i LEFT JOIN rig.ledger l ON l.id = i.id AND l.kind <> 'retry'
   GROUP BY i.id HAVING count(DISTINCT l.step) <> 3
  UNION ALL
  SELECT format('%s joined %s', i.id, i.result) FROM gen_durable.instances i
   WHERE i.fsm = 'top' AND (i.status <> 'done' OR i.result IS DISTINCT FROM '{"children": 20}')
  UNION ALL
  SELECT format('%s kid %s', i.id, i.status) FROM gen_durable.instances i
   WHERE i.fsm = 'kid' AND i.status <> CASE WHEN i.id % 11 = 0 THEN 'failed' ELSE 'done' END::gen_durable.durable_status
  UNION ALL
  SELECT format('%s was joined before %s had ended', p.id, c.id)
    FROM gen_durable.instances p
    JOIN rig.ledger l ON l.id = p.id AND l.step = 'joined'
    JOIN gen_durable.instances c ON c.parent_id = p.id
    JOIN rig.ledger k ON k.id = c.id AND k.step = 'three'
   WHERE k.n > l.n;
$$;
