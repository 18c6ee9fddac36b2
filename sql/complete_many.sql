-- A batch of outcomes commits row by row: each entry's result on its own row, whatever the others are.
-- GD-151, GD-153, GD-156, GD-161, GD-165, GD-166, GD-167, GD-169, GD-170, GD-171, GD-174, D-8, AC-110, AC-121, AC-122, AC-124
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CREATE FUNCTION pg_temp.entry(name text, outcome jsonb) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT outcome || jsonb_build_object('token', t.tok(name))
$$;
CALL fresh();

-- Stale, invalid and good entries side by side. Results come by ordinal from 1.
SELECT count(*) FROM unnest('{a,b,c,d,e,f,g}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', 10);
SELECT r.ord, CASE WHEN r.result = 'committed' THEN r.id END, CASE WHEN r.result LIKE 'invalid: %' THEN 'invalid' ELSE r.result END FROM complete_many(jsonb_build_array(
  pg_temp.entry('a', next_step('two')),
  '{"outcome": "done", "token": "00000000-0002-8000-8000-000000000000"}'::jsonb,
  pg_temp.entry('b', '{"outcome": "next"}'),
  pg_temp.entry('c', done()),
  pg_temp.entry('d', '{"outcome": "dnoe"}'),
  pg_temp.entry('e', retry()),
  pg_temp.entry('f', stop('x')))) r ORDER BY ord;
SELECT st('a', 'b', 'c', 'd', 'e', 'f', 'g');
-- The refused claims are still held and can be used.
SELECT ord, id, result FROM complete_many(jsonb_build_array(pg_temp.entry('d', done()), pg_temp.entry('b', done()))) ORDER BY ord;

-- One token twice in a batch: the first entry spends it.
SELECT ord, result FROM complete_many(jsonb_build_array(pg_temp.entry('g', next_step('two')), pg_temp.entry('g', next_step('three')), pg_temp.entry('g', done()))) ORDER BY ord;
SELECT st('g');
-- An invalid entry does not.
SELECT picks('q', 10);
SELECT ord, left(result, 9) FROM complete_many(jsonb_build_array(pg_temp.entry('g', '{}'), pg_temp.entry('g', next_step('three')))) ORDER BY ord;

-- Every kind of bad entry is reported with its reason, and the good one between them commits.
CREATE TEMP TABLE bad (ord serial, entry jsonb, word text);
INSERT INTO bad (entry, word) VALUES
  ('1', 'object'), ('"done"', 'object'), ('null', 'object'), ('[]', 'object'), ('{}', 'token'),
  ('{"outcome": "done"}', 'token'), ('{"outcome": "done", "token": null}', 'token'), ('{"outcome": "done", "token": 1}', 'token'),
  ('{"outcome": "done", "token": "no-token"}', 'no-token'), ('{"outcome": "done", "token": ""}', 'token');
INSERT INTO bad (entry, word) SELECT pg_temp.entry('e', o), w FROM (VALUES
  ('{}'::jsonb, 'outcome'), ('{"outcome": "dnoe"}', 'dnoe'), ('{"outcome": "next", "step": ""}', 'step'), ('{"outcome": "next", "step": "x", "stpe": 1}', 'stpe'),
  ('{"outcome": "next", "step": "x", "weight": 0}', 'weight'), ('{"outcome": "next", "step": "x", "rate_limit": "nowhere"}', 'nowhere'),
  ('{"outcome": "retry", "delay": "soon"}', 'soon'), ('{"outcome": "retry", "delay": "-1 s"}', 'delay'), ('{"outcome": "retry", "delay": "178000000 years"}', 'delay'),
  ('{"outcome": "await", "names": ["x"], "step": "x", "timeout": "178000000 years"}', 'timeout'),
  ('{"outcome": "await", "names": [], "step": "x"}', 'names'), ('{"outcome": "done", "result": []}', 'result'), ('{"outcome": "stop"}', 'reason'),
  ('{"outcome": "children", "step": "x", "children": [{"fsm": "y"}, {"fsm": ""}]}', 'machine name'),
  ('{"outcome": "children", "step": "x", "children": [{"fsm": "y"}, {"fsm": "y", "schedule_in": "178000000 years"}]}', 'schedule_in'),
  ('{"outcome": "children", "step": "x", "children": [{"fsm": "y"}, {"fsm": "y", "eligible_at": "yesteryear"}]}', 'yesteryear'),
  ('{"outcome": "children", "step": "x", "children": [{"fsm": "y"}, {"fsm": "y", "rate_limit": "nowhere"}]}', 'nowhere')) v (o, w);
SELECT count(*), count(*) FILTER (WHERE r.result LIKE 'invalid: _%'), string_agg(r.result, '; ') FILTER (WHERE position(word IN r.result) = 0)
FROM bad JOIN complete_many((SELECT jsonb_agg(entry ORDER BY ord) FROM bad) || pg_temp.entry('a', done())) r USING (ord);
SELECT st('a', 'e', 'y');

-- Only an argument that is no array is refused as a whole.
SELECT err($$SELECT complete_many(NULL)$$, 'outcomes');
SELECT a, err(format('SELECT complete_many(%L)', a)) FROM unnest('{"{}","1","\"x\"","null"}'::text[]) a;
SELECT * FROM complete_many('[]');
-- A text that jsonb cannot hold is refused with the argument, and that call changes nothing.
SELECT err(format('SELECT complete_many(%L)', '[{"outcome": "retry", "token": "' || tok('e') || '"}, {"outcome": "stop", "reason": "a\u0000b", "token": "' || tok('e') || '"}]'));
SELECT st('e');

-- Children of several fan-outs in one batch; a collision of keys costs its child only.
CALL fresh();
SELECT ins('occupant', 'k');
SELECT count(*) FROM unnest('{p1,p2,p3}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', 10);
SELECT ord, result FROM complete_many(jsonb_build_array(
  pg_temp.entry('p1', schedule_children('two', '[{"fsm": "c", "correlation_key": "k", "queue": "c"}, {"fsm": "c", "correlation_key": "l", "queue": "c"}]')),
  pg_temp.entry('p2', schedule_children('two', '[{"fsm": "c", "correlation_key": "l", "queue": "c"}, {"fsm": "c", "queue": "c"}]')),
  pg_temp.entry('p3', schedule_children('two', '[{"fsm": "c", "correlation_key": "l", "queue": "c"}]')))) ORDER BY ord;
-- one of the parents got the child of key l, and who got none goes on at once
SELECT sum(children_pending), bool_and((status = 'runnable') = (children_pending = 0)), max(children_pending) FILTER (WHERE fsm = 'p2') > 0,
  (SELECT string_agg(correlation_key, ' ') FROM instances WHERE fsm = 'c') FROM instances WHERE fsm LIKE 'p%';

-- Several children of one parent end in one batch: the parent joins once, by all of them.
CALL fresh();
SELECT created FROM insert('parent', queue => 'q');
SELECT picks('q'), fin('parent', schedule_children('two', '[{"fsm": "c1", "queue": "c"}, {"fsm": "c2", "queue": "c"}, {"fsm": "c3", "queue": "c"}]'));
SELECT picks('c', 10);
SELECT result FROM complete_many(jsonb_build_array(pg_temp.entry('c1', done()), pg_temp.entry('c3', stop('x'))));
SELECT st('parent'), children_pending FROM instances WHERE fsm = 'parent';
SELECT result FROM complete_many(jsonb_build_array(pg_temp.entry('c2', done())));
SELECT st('parent'), children_pending FROM instances WHERE fsm = 'parent';

-- A child and its parent in one batch, and a parent that joins another.
SELECT picks('q'), fin('parent', schedule_children('three', '[{"fsm": "mid", "queue": "m"}]'));
SELECT picks('m'), fin('mid', schedule_children('two', '[{"fsm": "leaf", "queue": "l"}]'));
SELECT picks('l');
SELECT result FROM complete_many(jsonb_build_array(pg_temp.entry('leaf', done())));
SELECT picks('m'), fin('mid', done());
SELECT st('parent');

-- Consumption stays exact for each row of the batch.
CALL fresh();
SELECT count(*) FROM unnest('{a,b}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', 2), fin('a', await_signal('{go}', 'two')), fin('b', await_signal('{go}', 'two'));
SELECT signal(id(n), s) FROM unnest('{a,b}'::text[]) n, unnest('{go,other}'::text[]) s;
SELECT picks('q', 2), signal(id('a'), 'go'), signal(id('b'), 'go');
SELECT result FROM complete_many(jsonb_build_array(pg_temp.entry('a', next_step('three')), pg_temp.entry('b', retry())));
SELECT sigs('a'), sigs('b');

-- A thousand plain outcomes take one transaction id.
CALL fresh();
SELECT count(*) FROM generate_series(1, 1000) n, insert('m', to_jsonb(n), queue => 'm');
CREATE TEMP TABLE jobs AS SELECT * FROM pick('m', 'w', 1000);
BEGIN;
SELECT count(*) FILTER (WHERE result = 'committed') FROM complete_many((SELECT jsonb_agg(next_step('two') || jsonb_build_object('token', token)) FROM jobs));
SELECT count(*) FROM instances WHERE xmin = pg_current_xact_id()::xid;
COMMIT;
SELECT status, step, count(*) FROM instances GROUP BY 1, 2;
-- The order of the entries is nobody's concern.
TRUNCATE jobs;
INSERT INTO jobs SELECT * FROM pick('m', 'w', 1000);
SELECT count(*) FILTER (WHERE result = 'committed'), bool_and(r.id = e.id)
FROM (SELECT id, token, row_number() OVER (ORDER BY id DESC) AS ord FROM jobs) e
JOIN complete_many((SELECT jsonb_agg(done() || jsonb_build_object('token', token) ORDER BY id DESC) FROM jobs)) r USING (ord);
