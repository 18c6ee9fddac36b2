-- The assertions for machines, of the extension gen_durable_pgtap: they pass and fail as they should (GD-401).
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\set ON_ERROR_STOP true
SET client_min_messages = warning;
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS gen_durable;
CREATE SCHEMA helpers;
CREATE EXTENSION gen_durable_pgtap SCHEMA helpers;
SELECT no_plan();
SET search_path = public, helpers;
TRUNCATE gen_durable.instances CASCADE;

CREATE FUNCTION public.machine(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  CASE ctx.step
    WHEN 'start' THEN RETURN gen_durable.await_signal('{go,stop}', 'woken', timeout => '30 days');
    WHEN 'woken' THEN RETURN gen_durable.done(jsonb_build_object('signals', jsonb_array_length(ctx.awaited)));
    ELSE RAISE EXCEPTION 'no step %', ctx.step;
  END CASE;
END $$;
SELECT gen_durable.register_fsm('machine', 'public.machine(gen_durable.job)', max_attempts => 1) AS registered \gset
SELECT id AS a FROM gen_durable.insert('machine') \gset
SELECT id AS b FROM gen_durable.insert('machine', step => 'other') \gset
SELECT steps FROM gen_durable.drain() \gset

SELECT durable_status_is(:a, 'awaiting_signal');
SELECT durable_awaiting(:a);
SELECT durable_awaiting(:a, '{stop,go}');
SELECT durable_failed(:b);
SELECT durable_failed(:b, 'no step other');
SELECT is(durable_fire_timeouts(), 1::bigint, 'a timeout of a month fires');
SELECT durable_status_is(:a, 'runnable');
SELECT steps FROM gen_durable.drain() \gset
SELECT durable_done(:a);
SELECT durable_done(:a, '{"signals": 0}', 'woken by the timeout');
SELECT is(durable_fire_timeouts(), 0::bigint, 'and nothing is left to fire');
SELECT is(current_setting('gen_durable.clock_offset'), '0', 'the clock is as it was');

-- What does not hold is not ok; an unknown instance is neither.
SELECT check_test(durable_status_is(:a, 'failed'), false, 'another status');
SELECT check_test(durable_done(:a, '{}'), false, 'another result');
SELECT check_test(durable_done(:b), false, 'not done');
SELECT check_test(durable_failed(:a), false, 'not failed');
SELECT check_test(durable_failed(:b, 'another error'), false, 'another error');
SELECT check_test(durable_awaiting(:a), false, 'not parked');
SELECT check_test(durable_done(4711), false, 'no such instance done');
SELECT check_test(durable_failed(4711), false, 'no such instance failed');
SELECT check_test(durable_awaiting(4711), false, 'no such instance parked');
SELECT check_test(durable_status_is(4711, 'done'), false, 'no such instance');

SELECT finish();
ROLLBACK;
