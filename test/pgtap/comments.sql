-- Everything in the schema says what it is for: a comment on every object that a reader can meet.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\set ON_ERROR_STOP true
SET client_min_messages = warning;
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS gen_durable;
SELECT no_plan();

SELECT isnt(coalesce(obj_description('gen_durable'::regnamespace), ''), '', 'the schema has a comment');
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'gen_durable'::regnamespace
    AND coalesce(obj_description(p.oid, 'pg_proc'), '') = ''$$, 'every function and procedure has a comment');
SELECT is_empty($$SELECT c.relkind, c.relname FROM pg_class c WHERE c.relnamespace = 'gen_durable'::regnamespace
    AND c.relkind IN ('r', 'v', 'm', 'p') AND coalesce(obj_description(c.oid, 'pg_class'), '') = ''$$, 'every table and view has a comment');
SELECT is_empty($$SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
   WHERE c.relnamespace = 'gen_durable'::regnamespace AND c.relkind IN ('r', 'v', 'm', 'p', 'c') AND a.attnum > 0 AND NOT a.attisdropped
     AND coalesce(col_description(c.oid, a.attnum), '') = ''$$, 'every column of a table, a view or a type has a comment');
SELECT is_empty($$SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'gen_durable'::regnamespace AND c.relkind IN ('i', 'I')
    AND coalesce(obj_description(c.oid, 'pg_class'), '') = ''$$, 'every index has a comment');
SELECT is_empty($$SELECT k.conname FROM pg_constraint k WHERE k.connamespace = 'gen_durable'::regnamespace AND k.contype IN ('p', 'u', 'f', 'c', 'x')
    AND coalesce(obj_description(k.oid, 'pg_constraint'), '') = ''$$, 'every constraint has a comment');
SELECT is_empty($$SELECT g.tgname FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid WHERE c.relnamespace = 'gen_durable'::regnamespace AND NOT g.tgisinternal
    AND coalesce(obj_description(g.oid, 'pg_trigger'), '') = ''$$, 'every trigger has a comment');
SELECT is_empty($$SELECT t.typname FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
   WHERE t.typnamespace = 'gen_durable'::regnamespace AND (t.typtype IN ('e', 'd', 'r') OR t.typtype = 'c' AND c.relkind = 'c')
     AND coalesce(obj_description(t.oid, 'pg_type'), '') = ''$$, 'every type has a comment');
-- A comment is a sentence: it says more than the name.
SELECT is_empty($$SELECT d.objoid, d.description FROM pg_description d
    JOIN pg_depend e ON e.classid = d.classoid AND e.objid = d.objoid AND e.deptype = 'e'
    JOIN pg_extension x ON x.oid = e.refobjid AND e.refclassid = 'pg_extension'::regclass AND x.extname = 'gen_durable'
   WHERE d.description !~ '\S+ \S+' OR d.description !~ '\.$'$$, 'every comment is a sentence');

SELECT finish();
ROLLBACK;
