-- pause and resume: a paused queue hands nothing out, and nothing else changes. D-3, GD-053, GD-054
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CREATE FUNCTION pg_temp.shift(span interval) RETURNS void LANGUAGE sql AS $$
  SELECT set_config('gen_durable.clock_offset', (extract(epoch FROM span) * 1000)::text, false)
$$;
CREATE FUNCTION pg_temp.paused() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT string_agg(concat_ws(' ', name, paused_at IS NOT NULL, paused_until IS NOT NULL, coalesce(pause_reason, '-')), '; ' ORDER BY name) FROM gen_durable.queues
$$;
CALL fresh();

-- No claim by any way, while the other queue goes on.
SELECT count(*) FROM unnest('{a,b,c}'::text[]) n, insert(n, queue => 'q');
SELECT count(*) FROM unnest('{o1,o2,o3,o4,o5}'::text[]) n, insert(n, queue => 'o');
SELECT picks('q');
SELECT pause('q', reason => 'the printer is on fire');
SELECT pg_temp.paused();
SELECT picks('q', 10), picks('q', 10, ttl => '1 h'), (SELECT count(*) FROM take('q', 'w', 10)), picks('o');
SELECT (SELECT count(*) FROM complete_and_take(jsonb_build_array(done() || jsonb_build_object('token', tok('o1'))), 'q', 'w', 10)), st('o1');
SELECT picks('o');
CALL commit_and_take(jsonb_build_array(done() || jsonb_build_object('token', tok('o2'))), 'q', 'w', 10);
SELECT st('o2');
-- Inserts, signals, heartbeats and outcomes go on.
SELECT created FROM insert('d', queue => 'q');
SELECT signal(id('b'), 'go'), held FROM heartbeat(ARRAY[tok('a')]);
SELECT fin('a', next_step('two'));
-- Why.
SELECT status, waits_for, w.since = q.paused_at, until, held_by, ahead FROM queues q, why(id('b')) w;
SELECT waits_for FROM why(id('o3'));
SELECT count(*) FROM insert('later', queue => 'q', schedule_in => '1 h');
SELECT waits_for FROM why(id('later'));

-- Again: the end and the reason are replaced, it is paused since it was. Until an instant: nobody need write.
SELECT paused_at AS since FROM queues \gset
SELECT pause('q', until => clock_timestamp() + '1 h');
SELECT paused_at = :'since', pg_temp.paused() FROM queues;
SELECT waits_for, w.until = q.paused_until FROM queues q, why(id('b')) w;
SELECT pg_temp.shift('59 min'), picks('q');
SELECT pg_temp.shift('59 min'), waits_for FROM why(id('b'));
SELECT pg_temp.shift('61 min');
SELECT picks('q'), waits_for, pg_temp.paused() FROM why(id('c'));
-- Paused anew after its end, it is so since then.
SELECT pause('q'), pg_temp.shift('62 min');
SELECT paused_at > :'since', pg_temp.paused(), picks('q', 10) FROM queues;
SELECT pg_temp.shift('0');

-- resume, of what is paused and of what is not.
SELECT resume('q');
SELECT pg_temp.paused(), picks('q', 10);
SELECT resume('q'), resume('never seen');
SELECT pg_temp.paused();
-- An end that has passed: as if resumed. A queue of the server's lease keeps one of its own.
SELECT pause('q', until => '2020-01-01');
SELECT count(*) FROM insert('e', queue => 'q');
SELECT picks('q', 10);
UPDATE queues SET lease_ttl = '10 min';
SELECT pause('q'), resume('q');
SELECT lease_ttl, paused_at FROM queues;
-- A rollback takes it back.
BEGIN;
SELECT pause('o');
SELECT picks('o');
ROLLBACK;
SELECT picks('o');

-- A key that becomes free promotes the head of each queue that is not paused.
CALL fresh();
SELECT count(*) FROM unnest('{q,p,q,p,p}'::text[], '{h,p1,q1,p2,p3}'::text[]) x (queue, n), insert(n, queue => queue, concurrency_key => 'k');
SELECT picks('q', 10), picks('p', 10), blocked('q'), blocked('p');
SELECT pause('p', until => clock_timestamp() + '1 h', reason => 'why not');
SELECT waits_for FROM why(id('p1'));
SELECT fin('h', done());
SELECT blocked('q'), blocked('p');
SELECT promoted FROM tick();
SELECT picks('p', 10), blocked('p'), picks('q', 10);
SELECT fin('q1', done());
SELECT blocked('p');
-- resume promotes it.
SELECT resume('p');
SELECT blocked('p');
SELECT picks('p', 10), blocked('p');
-- So does the recheck where the pause ended by its time.
SELECT pause('p', until => clock_timestamp() + '1 h');
SELECT fin('p1', done());
SELECT promoted, blocked('p') FROM tick();
SELECT pg_temp.shift('61 min');
SELECT promoted FROM tick();
SELECT blocked('p'), picks('p', 10);
SELECT pg_temp.shift('0');
-- The turn of a row that was promoted before the pause waits in the queue and holds nobody up elsewhere.
SELECT count(*) FROM insert('q2', queue => 'q', concurrency_key => 'k');
SELECT picks('q'), resume('p');
SELECT fin('p2', done());
SELECT blocked('p'), pause('p');
SELECT picks('p'), picks('q');
SELECT fin('q2', done()), resume('p');
SELECT picks('p');

-- Any name, any reason; nothing that is no name, no instant that never comes.
SELECT pause(n, reason => n) FROM unnest(ARRAY['x', repeat('x', 255), 'ü "''\ %s', E'\t']) n;
SELECT count(*) FROM queues WHERE paused_at IS NOT NULL AND pause_reason = name;
SELECT resume(name) FROM queues;
SELECT count(*) FROM queues WHERE paused_at IS NOT NULL OR pause_reason IS NOT NULL;
SELECT pause('x', reason => repeat('r', 100000));
SELECT length(pause_reason) < 70000, right(pause_reason, 40) FROM queues WHERE name = 'x';
SELECT err('SELECT pause(NULL)', 'queue'), err('SELECT pause('''')', 'queue'), err('SELECT pause(repeat(''x'', 256))', 'queue', '255');
SELECT err('SELECT resume(NULL)', 'queue'), err('SELECT resume('''')', 'queue'), err('SELECT resume(repeat(''x'', 256))', 'queue', '255');
SELECT err('SELECT pause(''q'', ''infinity'')', 'until'), err('SELECT pause(''q'', ''-infinity'')', 'until');
BEGIN READ ONLY;
SELECT err('SELECT pause(''q'')'), err('SELECT resume(''q'')');
ROLLBACK;
CALL fresh();
