-- The same report without a worker program: the steps are SQL, and the server runs them. To be read after machine.sql.
--
-- A step may do what the owner of its machine may. These read the server's files, so a superuser registers them.

-- What each step has done, written by the step itself: the row and the outcome are committed together or not at all.
CREATE TABLE report.ran (instance bigint, step text, attempt int, at timestamptz DEFAULT clock_timestamp(), PRIMARY KEY (instance, step));

-- Where COPY puts what a program prints. A step takes its lines out again, so nobody ever sees those of another.
CREATE UNLOGGED TABLE report.printed (n bigint GENERATED ALWAYS AS IDENTITY, line text);

CREATE FUNCTION report.quoted(word text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN '''' || replace(word, '''', '''\''''') || '''';

-- The lines that a command of the shell prints. COPY raises where the command fails, and with it the step.
CREATE FUNCTION report.shell(command text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
  lines text[];
BEGIN
  -- As CSV with signs that no text has, a line is one field, whatever else is in it.
  EXECUTE format('COPY report.printed (line) FROM PROGRAM %L (FORMAT csv, DELIMITER E''\x01'', QUOTE E''\x02'')',
                 'LC_ALL=C exec bash -euo pipefail -c ' || report.quoted(command));
  WITH taken AS (DELETE FROM report.printed RETURNING n, line)
  SELECT array_agg(line ORDER BY n) INTO lines FROM taken;
  RETURN lines;
END $$;

-- The compressed changelogs and the copyright files below a folder, each printed as find's -printf says.
CREATE FUNCTION report.documents(folder text, print text) RETURNS text[]
LANGUAGE sql
RETURN report.shell(format('find %s -type f -path %s \( -name "changelog*.gz" -o -name "NEWS*.gz" -o -name copyright \) -printf %s',
                           report.quoted(folder), report.quoted('/usr/share/doc/*/*'), report.quoted(print || '\n')));

-- A line for each file, as report.measured reads it: the counts are wc's, of the file unpacked; the hash is the server's.
CREATE FUNCTION report.measure(files text[]) RETURNS text[]
LANGUAGE sql
BEGIN ATOMIC
  SELECT array_agg(concat_ws(' ', count[3], count[1], count[2], encode(sha256(pg_read_binary_file(path)), 'hex'), path) ORDER BY n)
    FROM (SELECT report.shell(string_agg(format('gzip -cdf -- %s | wc -lwc', report.quoted(path)), E'\n' ORDER BY n))
            FROM unnest(files) WITH ORDINALITY AS f(path, n)) AS s(lines),
         unnest(files, lines) WITH ORDINALITY AS f(path, line, n),
         regexp_split_to_array(trim(line), ' +') AS count;
END;

-- What follows each step is machine.sql's, the same as for the workers.
CREATE FUNCTION report.step(job gen_durable.job) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  package text := job.state ->> 'package';
  found text[];
BEGIN
  CASE job.step
    WHEN 'list' THEN
      found := ARRAY(SELECT DISTINCT split_part(path, '/', 1) FROM unnest(report.documents('/usr/share/doc', '%P')) AS path ORDER BY 1);
    WHEN 'read' THEN
      found := report.documents('/usr/share/doc/' || package, '%p');
    WHEN 'measure' THEN
      found := report.measure(ARRAY(SELECT jsonb_array_elements_text(job.state -> 'files')));
    ELSE NULL;
  END CASE;
  INSERT INTO report.ran (instance, step, attempt) VALUES (job.id, job.step, job.attempt);
  RETURN report.outcome(job.id, job.step, package, found);
END $$;

SELECT gen_durable.register_fsm('report', 'report.step(gen_durable.job)', queue => 'report', initial => 'list');
SELECT gen_durable.register_fsm('package', 'report.step(gen_durable.job)', queue => 'report', initial => 'read');
