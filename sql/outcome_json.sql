-- Outcomes as JSON: what the constructors make, and every form that complete refuses.
-- GD-012, GD-155, GD-160, GD-161, D-8, D-12, AC-125
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- The constructors make what a client may write itself.
SELECT next_step('two') @> '{"outcome": "next", "step": "two"}', next_step('two') ? 'state', next_step('two') ? 'concurrency_key';
SELECT next_step('two', '{"n": 1}', 'api', 2.5, 'k') @> '{"outcome": "next", "step": "two", "state": {"n": 1}, "rate_limit": "api", "weight": 2.5, "concurrency_key": "k"}';
SELECT next_step('two', release_key => true)->'concurrency_key', next_step('two', state => 'null') ? 'state', next_step('two', inline_execution => false)->'inline_execution';
SELECT (next_step('two', delay => '90 s')->>'delay')::interval, (retry('1 month 2 days 3.5 s')->>'delay')::interval;
SELECT retry()->>'outcome', retry('1 s', '[1]')->'state', retry() ? 'state';
SELECT await_signal('{go,stop}', 'two') @> '{"outcome": "await", "names": ["go", "stop"], "step": "two"}', await_signal('{go}', 'two') ? 'timeout',
  (await_signal('{go}', 'two', '{}', '1 h')->>'timeout')::interval;
SELECT schedule_children('two', '[{"fsm": "a"}, {"fsm": "b", "state": {"x": 1}}]') @> '{"outcome": "children", "step": "two", "children": [{"fsm": "a"}, {"fsm": "b", "state": {"x": 1}}]}';
SELECT done(), done('{"ok": true}'), stop('why'), fail('what');
-- Delays do not depend on the session's interval style.
SET intervalstyle = sql_standard;
CREATE TEMP TABLE styled AS SELECT retry('1 day 2 hours')->>'delay' AS delay;
SET intervalstyle = postgres;
SELECT delay::interval = '1 day 2 hours' FROM styled;
-- Texts are kept whole: quotes, backslashes, percent signs, newlines, other alphabets.
SELECT next_step(E'a"b\\c%\n''д')->>'step' = E'a"b\\c%\n''д', stop(E'a"b\\c%\n''д')->>'reason' = E'a"b\\c%\n''д';

-- They are of use in an index or a generated column, and in parallel.
SELECT proname, provolatile, proparallel FROM pg_proc
WHERE pronamespace = 'gen_durable'::regnamespace AND proname IN ('next_step', 'retry', 'await_signal', 'schedule_children', 'done', 'stop', 'fail')
ORDER BY proname COLLATE "C";

-- What they refuse.
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY[
  $$next_step(NULL)$$, $$next_step('')$$, $$next_step(repeat('x', 256))$$, $$next_step('a', weight => 0)$$, $$next_step('a', weight => -1)$$,
  $$next_step('a', weight => 'NaN')$$, $$next_step('a', weight => 'Infinity')$$, $$next_step('a', delay => '-1 s')$$,
  $$next_step('a', rate_limit => '')$$, $$next_step('a', concurrency_key => '')$$, $$next_step('a', concurrency_key => 'k', release_key => true)$$,
  $$retry('-1 s')$$, $$await_signal(NULL, 'a')$$, $$await_signal('{}', 'a')$$, $$await_signal('{go,NULL}', 'a')$$, $$await_signal('{go,""}', 'a')$$,
  $$await_signal('{go}', NULL)$$, $$await_signal('{go}', '')$$, $$await_signal('{go}', 'a', timeout => '0')$$, $$await_signal('{go}', 'a', timeout => '-1 s')$$,
  $$schedule_children(NULL, '[]')$$, $$schedule_children('a', NULL)$$, $$schedule_children('a', '{}')$$,
  $$done('[]')$$, $$done('1')$$, $$done('null')$$, $$stop(NULL)$$, $$fail(NULL)$$]) q;

-- What complete refuses, whoever wrote it. The message names the key; the claim stays as it was.
SELECT created FROM insert('a', '{"n": 1}', queue => 'q');
SELECT picks('q');
CREATE FUNCTION pg_temp.refused(outcome text, VARIADIC words text[] DEFAULT '{}') RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT t.err(format('SELECT gen_durable.complete(%L, %L)', t.tok('a'), outcome), VARIADIC words)
$$;
-- no outcome at all
SELECT o, pg_temp.refused(o) FROM unnest(ARRAY['[]', '"done"', '1', 'null', 'true', '{}', '{"outcome": null}', '{"outcome": 1}', '{"outcome": "dnoe"}', '{"outcome": "Done"}',
  '[{"outcome": "done"}]', '{"outcome": {"done": {}}}', '{"step": "two"}']) o;
SELECT pg_temp.refused('{"outcome": "dnoe"}', 'dnoe'), err(format('SELECT complete(%L, NULL)', tok('a')), 'outcome');
-- unknown keys, and keys of another outcome
SELECT o, pg_temp.refused(o, k) FROM (VALUES
  ('{"outcome": "next", "step": "x", "stpe": "y"}', 'stpe'), ('{"outcome": "next", "step": "x", "result": {}}', 'result'),
  ('{"outcome": "next", "step": "x", "Step": "y"}', 'Step'), ('{"outcome": "next", "step": "x", "release_key": true}', 'release_key'),
  ('{"outcome": "next", "step": "x", "": 1}', ''), ('{"outcome": "next", "step": "x", "token": "t"}', 'token'),
  ('{"outcome": "retry", "step": "x"}', 'step'), ('{"outcome": "retry", "weight": 1}', 'weight'),
  ('{"outcome": "await", "names": ["a"], "step": "x", "delay": "1 s"}', 'delay'), ('{"outcome": "children", "children": [], "step": "x", "timeout": "1 s"}', 'timeout'),
  ('{"outcome": "done", "state": {}}', 'state'), ('{"outcome": "done", "reason": "x"}', 'reason'),
  ('{"outcome": "stop", "reason": "x", "error": "y"}', 'error'), ('{"outcome": "fail", "error": "x", "delay": "1 s"}', 'delay')) v (o, k);
-- required keys
SELECT o, pg_temp.refused(o, k) FROM (VALUES
  ('{"outcome": "next"}', 'step'), ('{"outcome": "next", "step": null}', 'step'), ('{"outcome": "await", "step": "x"}', 'names'),
  ('{"outcome": "await", "names": ["a"]}', 'step'), ('{"outcome": "children", "step": "x"}', 'children'), ('{"outcome": "children", "children": []}', 'step'),
  ('{"outcome": "stop"}', 'reason'), ('{"outcome": "fail"}', 'error')) v (o, k);
-- types
SELECT o, pg_temp.refused(o, k) FROM (VALUES
  ('{"outcome": "next", "step": 1}', 'step'), ('{"outcome": "next", "step": ["x"]}', 'step'), ('{"outcome": "next", "step": {}}', 'step'),
  ('{"outcome": "next", "step": "x", "weight": "2"}', 'weight'), ('{"outcome": "next", "step": "x", "rate_limit": 1}', 'rate_limit'),
  ('{"outcome": "next", "step": "x", "concurrency_key": 7}', 'concurrency_key'), ('{"outcome": "next", "step": "x", "concurrency_key": false}', 'concurrency_key'),
  ('{"outcome": "next", "step": "x", "delay": 5}', 'delay'), ('{"outcome": "next", "step": "x", "inline_execution": "yes"}', 'inline_execution'),
  ('{"outcome": "retry", "delay": true}', 'delay'), ('{"outcome": "await", "names": "go", "step": "x"}', 'names'),
  ('{"outcome": "await", "names": {"go": 1}, "step": "x"}', 'names'), ('{"outcome": "await", "names": [1], "step": "x"}', 'names'),
  ('{"outcome": "await", "names": [null], "step": "x"}', 'names'), ('{"outcome": "await", "names": [["go"]], "step": "x"}', 'names'),
  ('{"outcome": "await", "names": ["go"], "step": "x", "timeout": 30}', 'timeout'), ('{"outcome": "children", "step": "x", "children": {"fsm": "a"}}', 'children'),
  ('{"outcome": "children", "step": "x", "children": "a"}', 'children'), ('{"outcome": "children", "step": "x", "children": ["a"]}', 'child 1'),
  ('{"outcome": "children", "step": "x", "children": [null]}', 'child 1'), ('{"outcome": "children", "step": "x", "children": [[]]}', 'child 1'),
  ('{"outcome": "done", "result": []}', 'result'), ('{"outcome": "done", "result": "ok"}', 'result'), ('{"outcome": "done", "result": 1}', 'result'),
  ('{"outcome": "stop", "reason": {}}', 'reason'), ('{"outcome": "stop", "reason": 1}', 'reason'), ('{"outcome": "fail", "error": ["x"]}', 'error')) v (o, k);
-- values
SELECT o, pg_temp.refused(o, k) FROM (VALUES
  ('{"outcome": "next", "step": ""}', 'step'), ('{"outcome": "next", "step": "x", "weight": 0}', 'weight'), ('{"outcome": "next", "step": "x", "weight": -1}', 'weight'),
  ('{"outcome": "next", "step": "x", "weight": 1e400}', 'weight'), ('{"outcome": "next", "step": "x", "rate_limit": ""}', 'rate limit'),
  ('{"outcome": "next", "step": "x", "concurrency_key": ""}', 'concurrency key'), ('{"outcome": "next", "step": "x", "delay": "-1 s"}', 'delay'),
  ('{"outcome": "retry", "delay": "-00:00:01"}', 'delay'), ('{"outcome": "retry", "delay": "1 s ago"}', 'delay'),
  ('{"outcome": "await", "names": [], "step": "x"}', 'names'), ('{"outcome": "await", "names": [""], "step": "x"}', 'name'),
  ('{"outcome": "await", "names": ["go"], "step": ""}', 'step'), ('{"outcome": "await", "names": ["go"], "step": "x", "timeout": "0"}', 'timeout'),
  ('{"outcome": "await", "names": ["go"], "step": "x", "timeout": "-1 s"}', 'timeout')) v (o, k);
-- spans that are none, or too long to add
SELECT o, pg_temp.refused(o, 'delay') FROM unnest(ARRAY['{"outcome": "retry", "delay": "soon"}', '{"outcome": "retry", "delay": ""}', '{"outcome": "retry", "delay": "P1Q"}',
  '{"outcome": "retry", "delay": "99999999999 years"}']) o;
SELECT pg_temp.refused('{"outcome": "retry", "delay": "178000000 years"}', 'delay', '178000000 years');
-- children are checked like inserts, and so are texts that jsonb cannot hold
SELECT c, pg_temp.refused(format('{"outcome": "children", "step": "x", "children": [{"fsm": "fine"}, %s]}', c), k) FROM (VALUES
  ('{}', 'fsm'), ('{"fsm": null}', 'fsm'), ('{"fsm": ""}', 'machine name'), ('{"fsm": 1}', 'fsm'), ('{"fsm": "a", "parent_id": 1}', 'parent_id'), ('{"fsm": "a", "priority": "1"}', 'priority'),
  ('{"fsm": "a", "queue": ""}', 'queue'), ('{"fsm": "a", "weight": 0}', 'weight'), ('{"fsm": "a", "schedule_in": "-1 s"}', 'schedule_in'), ('{"fsm": "a", "correlation_scope": ["no"]}', 'no'),
  ('{"fsm": "a", "correlation_scope": "runnable"}', 'correlation_scope'), ('{"fsm": "a", "fsm_version": 1.5}', 'fsm_version')) v (c, k);
SELECT pg_temp.refused('{"outcome": "children", "step": "x", "children": [{"fsm": "a", "rate_limit": "nowhere"}]}', 'nowhere');
SELECT pg_temp.refused('{"outcome": "stop", "reason": "a\u0000b"}'), pg_temp.refused('{"outcome": "done", "result": {"a": "\ud800"}}'), pg_temp.refused('{"outcome": "done"');
-- Nothing of all that happened.
SELECT st('a'), state, (SELECT count(*) FROM instances) FROM instances WHERE fsm = 'a';

-- Both ways of writing a span.
SELECT fin('a', '{"outcome": "retry", "delay": "PT1M30S"}');
SELECT eligible_at - updated_at FROM instances;
