\echo Use "CREATE EXTENSION gen_durable" to load this file. \quit

COMMENT ON SCHEMA gen_durable IS 'Durable execution: instances of state machines, the signals sent to them, and the functions by which clients and workers use them.';

-- Workers need no preload, only notice new work more slowly without. Say so once, where the installer sees it:
-- the script of an extension runs with notices suppressed.
DO $preload$
BEGIN
  IF 'gen_durable' <> ALL (pg_catalog.string_to_array(
       pg_catalog.replace(pg_catalog.current_setting('shared_preload_libraries'), ' ', ''), ',')) THEN
    SET LOCAL client_min_messages = notice;
    RAISE NOTICE 'gen_durable is not in shared_preload_libraries: workers find new work by polling'
      USING HINT = 'Machines, workers and runs work so, with gen_durable.tick() called every few seconds. To preload it, add gen_durable to shared_preload_libraries and restart.';
    SET LOCAL client_min_messages = warning;
  END IF;
END
$preload$;
