-- Claims that end with their session (D-19): which are, and when. test/tap/t/013_session_claims.pl has how sessions end.
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
-- Waits, at most so long, until nobody holds a claim that was made by the worker.
CREATE PROCEDURE t.let_go(worker text) LANGUAGE plpgsql AS $$
DECLARE
  deadline timestamptz := clock_timestamp() + interval '20 s';
BEGIN
  WHILE EXISTS (SELECT FROM gen_durable.instances WHERE locked_by = worker) LOOP
    IF clock_timestamp() > deadline THEN
      RAISE EXCEPTION 'claims of % are still held', worker;
    END IF;
    COMMIT;
    PERFORM pg_sleep(0.01);
  END LOOP;
END $$;
CALL fresh();
-- Where it is not preloaded, a session knows the library's settings from its first call on.
LOAD 'gen_durable';
SHOW gen_durable.claim_scope;
SELECT err('SET gen_durable.claim_scope = ''transaction'''), err('SET gen_durable.claim_scope = ''''');

-- The setting counts where the claim is made: the lease's claims stay.
SELECT count(*) FROM unnest('{a,b,c,d,e,f,g}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', worker => 'lease');
SET gen_durable.claim_scope = 'session';
SELECT picks('q', 2, 'bound');
SET gen_durable.claim_scope = 'lease';
SELECT count(*) FROM heartbeat(ARRAY[tok('b')], '1 h');
SELECT picks('q', worker => 'lease');
\c -
SET search_path = gen_durable, t;
CALL let_go('bound');
SELECT st('a', 'b', 'c', 'd'), bool_and(crashes = 0 AND eligible_at = inserted_at) FROM instances;

-- Rolled back, in whole or in part, it is no claim; an end that is rolled back is none.
SET gen_durable.claim_scope = 'session';
BEGIN;
SELECT picks('q', worker => 'bound');
SAVEPOINT one;
SELECT picks('q', worker => 'bound');
SAVEPOINT two;
SELECT picks('q', worker => 'bound'), fin('b', done());
RELEASE two;
SELECT release(ARRAY[tok('c')]), fin('e', done());
ROLLBACK TO one;
SELECT st('b', 'c', 'e');
COMMIT;
BEGIN;
SELECT picks('q', 10, 'bound');
ROLLBACK;
BEGIN;
SELECT fin('b', done());
ROLLBACK;
SELECT st('b', 'c', 'e');
SELECT tok('b') AS token \gset
\c -
SET search_path = gen_durable, t;
CALL let_go('bound');
SELECT st('a', 'b', 'c', 'd', 'e'), err(format('SELECT complete(%L, done())', :'token'));

-- What ended before the session did is not touched, nor what another claimed since; a key that is let go promotes.
SELECT count(*) FROM unnest('{k1,k2}'::text[]) n, insert(n, queue => 'k', concurrency_key => 'k');
SET gen_durable.claim_scope = 'session';
SELECT picks('q', 2, 'bound'), picks('k', 10, 'bound');
SELECT fin('b', done()), release(ARRAY[tok('c')]);
SET gen_durable.claim_scope = 'lease';
SELECT picks('q', worker => 'other');
\c -
SET search_path = gen_durable, t;
CALL let_go('bound');
SELECT st('b', 'c', 'k1', 'k2'), blocked('k'), picks('k', 10);

-- More claims than are kept without a look at which are void.
CALL fresh();
SELECT count(*) FROM generate_series(1, 3000) n, insert('many', to_jsonb(n), queue => 'm');
SET gen_durable.claim_scope = 'session';
SELECT count(*) FROM pick('m', 'bound', 1500);
SELECT count(*) FROM pick('m', 'gone', 1500, '0');
SELECT reap(3000) >= 0;
CALL let_go('gone');
SELECT count(*) FROM pick('m', 'bound', 10);
\c -
SET search_path = gen_durable, t;
CALL let_go('bound');
SELECT status, count(*), sum(crashes) FROM instances GROUP BY status;

-- Left to the lease: a row whose cancellation was asked for.
CALL fresh();
SELECT count(*) FROM unnest('{a,b}'::text[]) n, insert(n, queue => 'q');
SET gen_durable.claim_scope = 'session';
SELECT picks('q', worker => 'cancelled'), picks('q', worker => 'bound');
SELECT cancel(id('a'));
\c -
SET search_path = gen_durable, t;
CALL let_go('bound');
SELECT st('a', 'b'), locked_by FROM instances WHERE fsm = 'a';
SET gen_durable.clock_offset = 120000;
SELECT reap(), st('a');
RESET gen_durable.clock_offset;
DROP PROCEDURE t.let_go;
CALL fresh();
