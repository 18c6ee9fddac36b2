-- The two machines of the report, and what follows each of their steps.
--
--   report:   list -> (a child for each package) -> join -> (the signal "publish") -> publish -> done
--   package:  read -> measure -> done
--
-- Workers speak in lines whose fields are set apart by tabs. A job goes out as token, id, step, package and the
-- package's files, and comes back as token, id, step, package and what was found. Which outcome that is, is said here.

CREATE SCHEMA report;

SELECT gen_durable.register_fsm('report', queue => 'report', initial => 'list');
SELECT gen_durable.register_fsm('package', queue => 'report', initial => 'read');

CREATE FUNCTION report.job_line(job gen_durable.job) RETURNS text
LANGUAGE sql STABLE
RETURN concat_ws(E'\t', (job).token, (job).id, (job).step, coalesce((job).state ->> 'package', '-'),
                 (SELECT string_agg(path, E'\t') FROM jsonb_array_elements_text((job).state -> 'files') AS path));

-- One line of measure: "bytes lines words sha256 path".
CREATE FUNCTION report.measured(line text) RETURNS jsonb
LANGUAGE sql IMMUTABLE
RETURN (SELECT jsonb_build_object('bytes', m[1]::bigint, 'lines', m[2]::bigint, 'words', m[3]::bigint, 'sha256', m[4], 'path', m[5])
          FROM regexp_match(line, '^(\d+) (\d+) (\d+) (\w+) (.*)$') AS m);

-- The report itself: totals, the ten largest files, and the files that are there more than once.
CREATE FUNCTION report.summary(parent bigint) RETURNS jsonb
LANGUAGE sql VOLATILE
BEGIN ATOMIC
  WITH child AS MATERIALIZED (
    SELECT c.result FROM gen_durable.children(parent, 0, 1000000) AS c
  ), file AS MATERIALIZED (
    SELECT f.path, f.bytes, f.lines, f.words, f.sha256
      FROM child, jsonb_to_recordset(child.result -> 'files') AS f(path text, bytes bigint, lines bigint, words bigint, sha256 text)
  ), largest AS (
    SELECT path, bytes FROM file ORDER BY bytes DESC, path COLLATE "C" LIMIT 10
  ), duplicate AS (
    SELECT sha256, jsonb_agg(path ORDER BY path COLLATE "C") AS paths FROM file GROUP BY sha256 HAVING count(*) > 1
  )
  SELECT jsonb_build_object(
    'packages', (SELECT count(*) FROM child),
    'files', count(*), 'bytes', sum(bytes), 'lines', sum(lines), 'words', sum(words),
    'largest', (SELECT jsonb_agg(to_jsonb(largest) ORDER BY bytes DESC, path COLLATE "C") FROM largest),
    'duplicates', (SELECT jsonb_agg(to_jsonb(duplicate) ORDER BY sha256) FROM duplicate))
    FROM file;
END;

CREATE FUNCTION report.outcome(id bigint, step text, package text, found text[]) RETURNS jsonb
LANGUAGE sql VOLATILE
RETURN CASE step
  WHEN 'list' THEN gen_durable.schedule_children('join',
    (SELECT coalesce(jsonb_agg(jsonb_build_object('fsm', 'package', 'state', jsonb_build_object('package', name))), '[]')
       FROM unnest(found) AS name))
  WHEN 'read' THEN gen_durable.next_step('measure', jsonb_build_object('package', package, 'files', to_jsonb(found)))
  WHEN 'measure' THEN gen_durable.done(jsonb_build_object('package', package, 'files',
    (SELECT coalesce(jsonb_agg(report.measured(line)), '[]') FROM unnest(found) AS line)))
  WHEN 'join' THEN CASE
    -- It may have come while the children ran, and only a signal that is new wakes a park.
    WHEN EXISTS (SELECT FROM gen_durable.inbox(id) WHERE name = 'publish') THEN gen_durable.next_step('publish')
    ELSE gen_durable.await_signal(ARRAY['publish'], 'publish') END
  WHEN 'publish' THEN gen_durable.done(report.summary(id))
  ELSE gen_durable.fail(array_to_string(found, E'\n'))
END;

-- The lines that a worker hands back, each with its token.
CREATE FUNCTION report.outcomes(lines text) RETURNS TABLE (token uuid, outcome jsonb)
LANGUAGE sql VOLATILE
BEGIN ATOMIC
  SELECT field[1]::uuid, report.outcome(field[2]::bigint, field[3], field[4], field[5:])
    FROM string_to_table(lines, E'\n') AS line, string_to_array(line, E'\t') AS field
   WHERE line <> '';
END;

-- A role that may work and do nothing else.
CREATE ROLE report_worker LOGIN;
SELECT gen_durable.grant_usage('report_worker', 'worker');
GRANT USAGE ON SCHEMA report TO report_worker;
