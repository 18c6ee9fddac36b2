-- Large values: kept where they are data, bounded where they are errors, and no obstacle to ending an instance.
-- GD-157, GD-161, GD-174, D-8, D-15, D-28
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
CREATE FUNCTION pg_temp.mb(n int) RETURNS text LANGUAGE sql AS $$ SELECT repeat('x', n * 1024 * 1024) $$;

-- 10 MB of state, payload and result.
SELECT created FROM insert('big', jsonb_build_object('s', pg_temp.mb(10)), queue => 'q');
SELECT length(state->>'s') FROM pick('q', 'w');
SELECT fin('big', next_step('two'));
SELECT picks('q'), fin('big', await_signal('{go}', 'three', jsonb_build_object('s', 'y' || pg_temp.mb(10))));
SELECT signal(id('big'), 'go', to_jsonb(pg_temp.mb(10)));
SELECT length(state->>'s'), length(awaited->0->>'payload') FROM pick('q', 'w');
SELECT ord, result FROM complete_many(jsonb_build_array(done(jsonb_build_object('r', pg_temp.mb(10))) || jsonb_build_object('token', tok('big'))));
SELECT status, length(result->>'r'), length(state->>'s'), (SELECT length(a.result->>'r') FROM await(id('big')) a) FROM instances;
-- 100 MB can be stored, claimed, and cancelled.
CALL fresh();
SELECT created FROM insert('huge', to_jsonb(pg_temp.mb(100)), queue => 'q');
SELECT length(state#>>'{}') FROM pick('q', 'w');
SELECT cancel(id('huge')), release(ARRAY[tok('huge')]);
SELECT st('huge'), length(state#>>'{}') FROM instances;
SELECT gc('0');

-- A payload of more than 32 MB, which no job could list, is refused; one that is there is listed, consumed, and hides nothing for ever.
CALL fresh();
SELECT created FROM insert('sig', queue => 'q');
SELECT picks('q'), fin('sig', await_signal('{go}', 'two'));
SELECT err($$SELECT signal(id('sig'), 'go', to_jsonb(pg_temp.mb(32)))$$, '33554432');
SELECT st('sig'), count(*) FROM signals;
INSERT INTO signals (target_id, name, payload) VALUES (id('sig'), 'go', to_jsonb(pg_temp.mb(40)));
SELECT signal(id('sig'), 'go', '"small"');
SELECT length(awaited->0->>'payload'), jsonb_array_length(awaited), jsonb_array_length(signals) FROM pick('q', 'w');
SELECT fin('sig', next_step('three'));
SELECT signals->0->>'payload' FROM pick('q', 'w');
CALL fresh();

-- An error text of up to 64 kB is kept whole; a longer one is cut on a character, with a note of its size.
SELECT count(*) FROM unnest('{whole,over,stop,fail,many,utf}'::text[]) n, insert(n, queue => 'e');
SELECT count(*) FROM pick('e', 'w', 10);
UPDATE instances SET attempt = 19 WHERE fsm = 'fail';
SELECT fin('whole', stop(repeat('x', 65536))), fin('over', stop(repeat('x', 65537))), fin('stop', stop(pg_temp.mb(10))), fin('fail', fail(pg_temp.mb(10)));
SELECT result FROM complete_many(jsonb_build_array(stop(pg_temp.mb(10)) || jsonb_build_object('token', tok('many')), stop(repeat('д', 5000000)) || jsonb_build_object('token', tok('utf'))));
SELECT created FROM insert('cancel', queue => 'c');
SELECT cancel(id('cancel'), pg_temp.mb(10));
SELECT fsm, octet_length(last_error) <= 65536, left(last_error, 1), last_error ~ '10485760', last_error ~ '65537', last_error ~ '10000000' FROM instances ORDER BY id;
SELECT octet_length(last_error), last_error = repeat('x', 65536) FROM instances WHERE fsm = 'whole';
SELECT translate(last_error, 'д0123456789', '') !~ 'д' AND octet_length(last_error) > 60000 FROM instances WHERE fsm = 'utf';

-- Messages stay short, whatever is in the input.
CREATE FUNCTION pg_temp.message(q text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE q;
EXCEPTION WHEN OTHERS THEN
  RETURN SQLSTATE || CASE WHEN length(SQLERRM) < 500 THEN ' short' ELSE ' of ' || length(SQLERRM) END;
END $$;
SELECT created FROM insert('m', queue => 'm');
SELECT picks('m');
SELECT k, pg_temp.message(format('SELECT complete(%L, %s)', tok('m'), replace(o, '#', 'pg_temp.mb(1)'))) FROM (VALUES
  ('outcome', 'jsonb_build_object(''outcome'', #)'), ('unknown key', 'jsonb_build_object(''outcome'', ''done'', #, 1)'), ('step', 'jsonb_build_object(''outcome'', ''next'', ''step'', #)'),
  ('delay', 'jsonb_build_object(''outcome'', ''retry'', ''delay'', #)'), ('limit', 'jsonb_build_object(''outcome'', ''next'', ''step'', ''x'', ''rate_limit'', repeat(''r'', 255))'),
  ('children', 'jsonb_build_object(''outcome'', ''children'', ''step'', ''x'', ''children'', jsonb_build_array(jsonb_build_object(''fsm'', #)))'),
  ('scope', 'jsonb_build_object(''outcome'', ''children'', ''step'', ''x'', ''children'', jsonb_build_array(jsonb_build_object(''fsm'', ''x'', ''correlation_scope'', jsonb_build_array(#))))')) v (k, o);
SELECT left(result, 8), length(result) < 500 FROM complete_many(jsonb_build_array(jsonb_build_object('token', pg_temp.mb(1)), jsonb_build_object('token', tok('m'), 'outcome', pg_temp.mb(1))));
SELECT pg_temp.message($$SELECT await(1, until => pg_temp.mb(1))$$);
SELECT st('m');
