-- Expired claims for a role that is confined to some tenants: by age over all of them, and what others have costs it nothing.
-- DK-019, DK-052, DK-060, DK-061, DK-071, D-21
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
SET timezone = 'UTC';
CALL fresh_runs();
CREATE ROLE gd_expired_one;
CREATE ROLE gd_expired_three;
CREATE ROLE gd_expired_none;
SELECT grant_tenant('gd_expired_one', 'b'), grant_tenant('gd_expired_three', 'a'), grant_tenant('gd_expired_three', 'b'), grant_tenant('gd_expired_three', 'c'), grant_tenant('gd_expired_none', 'nobody');
GRANT USAGE ON SCHEMA t TO PUBLIC;
GRANT EXECUTE ON FUNCTION t.due, t.heads TO PUBLIC;

-- Claims of a run each, in an order of age that has nothing to do with that of the tenants; equal ages go by the row's.
CREATE PROCEDURE t.claim_each(VARIADIC claims text[]) LANGUAGE plpgsql AS $$
DECLARE
  c text;
BEGIN
  CALL t.fresh_runs();
  FOREACH c IN ARRAY claims LOOP
    PERFORM t.run(c, scope => CASE left(c, 1) WHEN 'n' THEN 'tenantless' ELSE 'tenant:' || left(c, 1) END);
    PERFORM t.due(1, '1 year', at => timestamptz '2020-01-02' + substr(c, 2, 1)::int * interval '1 min');
  END LOOP;
END $$;
CREATE FUNCTION t.steal(max_rows int, at int, max int DEFAULT 5) RETURNS text LANGUAGE sql AS $$
  SELECT t.due(max_rows, '1 min', max, 'expired', timestamptz '2020-01-02' + at * interval '1 min')
$$;
GRANT EXECUTE ON FUNCTION t.steal TO PUBLIC;
CALL claim_each('c5', 'b3', 'x1', 'a4', 'n2', 'b6', 'c3', 'a3', 'x9', 'b1');
SET ROLE gd_expired_three;
-- One at a time is the order; the limit of the age is strict, in each tenant.
SELECT steal(1, 2), steal(1, 3), steal(1, 4), steal(1, 5), steal(1, 5), steal(1, 5), steal(1, 5), steal(1, 5);
SELECT steal(1, 6), steal(1, 6), steal(1, 6), steal(1, 7), steal(1, 7);
RESET ROLE;
SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM runs WHERE claim_attempts = 1;
-- Several in one call are the oldest of all its tenants, not all of one; what is poisoned takes its place among them.
CALL claim_each('c5', 'b3', 'x1', 'a4', 'n2', 'b6', 'c2', 'a1', 'x9', 'b1');
SET ROLE gd_expired_three;
SELECT steal(3, 9), steal(2, 9), steal(1, 9, 1), steal(9, 9);
SET ROLE gd_expired_one;
SELECT steal(9, 9), steal(9, 11);
SET ROLE gd_expired_none;
SELECT steal(9, 99), heads();
RESET ROLE;
SELECT steal(9, 10);
-- With ready runs too each class has its outcome.
CALL claim_each('a1', 'x1', 'c1', 'b2');
SELECT run('ready', '2019-01-01', 'tenant:c'), run('other', '2018-01-01', 'tenant:x');
SET ROLE gd_expired_three;
SELECT due(2, '1 min', at => '2020-01-02 00:09'), due(9, '1 min', at => '2020-01-02 00:09');
RESET ROLE;

-- How many entries of the indexes of the runs a session's calls come to, in this transaction.
CREATE FUNCTION t.entries() RETURNS bigint LANGUAGE sql AS $$
  SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index WHERE indrelid = 'gen_durable.runs'::regclass
$$;
CALL claim_each('b1', 'b2');
SELECT count(*) FROM (SELECT run('other' || i, scope => CASE i % 3 WHEN 0 THEN 'tenantless' ELSE 'tenant:x' || i % 3 END) FROM generate_series(1, 300) i) x;
SELECT count(*) FROM run_claim_due(300, '1 year', 5, now => '2020-01-01');
BEGIN;
SELECT entries() AS before \gset
SET LOCAL ROLE gd_expired_one;
SELECT steal(9, 9), steal(1, 9), heads();
RESET ROLE;
SELECT entries() - :before < 50 AS few;
SELECT entries() AS before \gset
SELECT count(*) FROM run_claim_due(301, '1 min', 5, 'expired', '2020-01-02 00:09');
SELECT entries() - :before > 300 AS counted;
ROLLBACK;
-- The index comes with the first grant. Whoever drops it has slower claims, and the same ones, until the next grant.
DROP INDEX runs_tenant_claimed;
CALL claim_each('c5', 'b3', 'x1', 'a4', 'n2', 'b6', 'c2', 'a1', 'x9', 'b1');
SET ROLE gd_expired_three;
SELECT heads(), steal(3, 9), steal(2, 9), steal(1, 9, 1), steal(9, 9);
RESET ROLE;
SELECT to_regclass('runs_tenant_claimed'), grant_tenant('gd_expired_none', 'nobody'), to_regclass('runs_tenant_claimed');
SELECT pg_get_indexdef(oid), obj_description(oid) FROM (SELECT to_regclass('runs_tenant_claimed')) x (oid);
SET ROLE gd_expired_three;
SELECT steal(9, 12), heads();
RESET ROLE;
DROP OWNED BY gd_expired_one, gd_expired_three, gd_expired_none;
DROP ROLE gd_expired_one, gd_expired_three, gd_expired_none;
TRUNCATE run_tenants;
