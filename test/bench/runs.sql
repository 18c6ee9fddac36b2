-- What the benchmark of the run store shares inside a database.

-- Documents of 2 kB as an agent's run has them: messages, of which half is the same over and over.
CREATE TABLE bench.documents AS
  SELECT n, d.document, convert_to(d.document::text, 'UTF8') AS bytes
  FROM generate_series(0, 999) n,
    LATERAL (SELECT jsonb_build_object('run', n, 'messages', jsonb_agg(jsonb_build_object(
        'role', CASE m % 2 WHEN 0 THEN 'user' ELSE 'assistant' END, 'content', md5(n || ' ' || m), 'tokens', n * m % 977,
        'tool', 'search')) ) FROM generate_series(1, 20) m) AS d (document);
ALTER TABLE bench.documents ADD PRIMARY KEY (n);

-- Runs as inserts leave them, in bulk, one of each tenant after the other, all due. Triggers would make it long.
CREATE PROCEDURE bench.load_runs(n int, tenants int) LANGUAGE plpgsql AS $$
BEGIN
  SET LOCAL session_replication_role = replica;
  INSERT INTO gen_durable.runs (run_id, tenant_id, graph_id, graph_hash, state, started_at, updated_at, wake_at)
    SELECT 'run-' || lpad(g::text, 9, '0'), 'tenant ' || g % tenants, 'graph', 'sha256:' || g % 7, d.bytes, at.at, at.at, at.at
    FROM generate_series(1, n) g JOIN bench.documents d ON d.n = g % 1000,
      LATERAL (SELECT clock_timestamp() AS at) at;
  INSERT INTO gen_durable.run_listings (started_at, status, run_id, scope_key, graph_id, graph_hash)
    SELECT started_at, status, run_id, scope_key, graph_id, graph_hash FROM gen_durable.runs;
END $$;

-- Instances with the same documents.
CREATE PROCEDURE bench.load_documents(n int) LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO gen_durable.instances (fsm, step, queue, state)
    SELECT 'bench', 'a', 'bench', d.document FROM generate_series(1, n) g JOIN bench.documents d ON d.n = g % 1000;
END $$;

-- Microseconds a run of claims, each a transaction, and of commits with a new document, which make the runs ready again
-- behind the others of their tenant: batch to a transaction, so that its own cost is shared as a claim's is.
CREATE PROCEDURE bench.run_cost(batch int, rounds int, INOUT claim_us float8 DEFAULT NULL, INOUT commit_us float8 DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  claims float8[] := '{}';
  commits float8[] := '{}';
  names text[];
  tokens uuid[];
  seqs bigint[];
  document bytea;
  since float8;
BEGIN
  FOR i IN -19 .. rounds LOOP
    SELECT bytes INTO document FROM bench.documents WHERE n = (i + 19) % 1000;
    since := bench.cpu_clock();
    SELECT array_agg(run_id), array_agg(claim_token), array_agg(checkpoint_seq) INTO names, tokens, seqs
      FROM gen_durable.run_claim_due(batch, '1 h', 5);
    COMMIT;
    IF cardinality(names) <> batch THEN
      RAISE EXCEPTION 'a claim gave % runs of %', cardinality(names), batch;
    END IF;
    IF i > 0 THEN                       -- the first rounds only warm the caches
      claims := claims || (bench.cpu_clock() - since) / batch;
    END IF;
    since := bench.cpu_clock();
    PERFORM FROM unnest(names, tokens, seqs) AS c (name, token, seq),
      gen_durable.run_commit('system', c.name, c.token, c.seq, 'step', 'immediate', 'running', 1, document);
    COMMIT;
    IF i > 0 THEN
      commits := commits || (bench.cpu_clock() - since) / batch;
    END IF;
  END LOOP;
  SELECT avg(c) INTO claim_us FROM unnest(claims) c;
  SELECT avg(c) INTO commit_us FROM unnest(commits) c;
END $$;

-- The same of the engine's picks and completes.
CREATE PROCEDURE bench.step_cost(batch int, rounds int, INOUT claim_us float8 DEFAULT NULL, INOUT commit_us float8 DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  claims float8[] := '{}';
  commits float8[] := '{}';
  tokens uuid[];
  outcome jsonb;
  since float8;
BEGIN
  FOR i IN -19 .. rounds LOOP
    SELECT gen_durable.next_step('a', d.document) INTO outcome FROM bench.documents d WHERE n = (i + 19) % 1000;
    since := bench.cpu_clock();
    SELECT array_agg(token) INTO tokens FROM gen_durable.pick('bench', 'w', batch);
    COMMIT;
    IF cardinality(tokens) <> batch THEN
      RAISE EXCEPTION 'a pick gave % steps of %', cardinality(tokens), batch;
    END IF;
    IF i > 0 THEN
      claims := claims || (bench.cpu_clock() - since) / batch;
    END IF;
    since := bench.cpu_clock();
    PERFORM FROM unnest(tokens) AS c (token), gen_durable.complete(c.token, outcome);
    COMMIT;
    IF i > 0 THEN
      commits := commits || (bench.cpu_clock() - since) / batch;
    END IF;
  END LOOP;
  SELECT avg(c) INTO claim_us FROM unnest(claims) c;
  SELECT avg(c) INTO commit_us FROM unnest(commits) c;
END $$;

-- Milliseconds of a page of 100 in a scope, behind as many of a hundred parts of all runs: the median of 21.
CREATE PROCEDURE bench.list_cost(scope text, depth int, INOUT ms float8 DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
  times float8[] := '{}';
  since timestamptz;
  at timestamptz;
BEGIN
  SELECT max(started_at) - (max(started_at) - min(started_at)) * depth / 100 + interval '1 us' INTO at FROM gen_durable.run_listings;
  FOR i IN 1 .. 21 LOOP
    since := clock_timestamp();
    PERFORM FROM gen_durable.run_list(scope, 100, at, 'z');
    times := times || extract(epoch FROM clock_timestamp() - since)::float8 * 1e3;
    COMMIT;
  END LOOP;
  SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY t) INTO ms FROM unnest(times) t;
END $$;

-- What clients do to runs of one tenant: insert one, claim some, commit those, and end the first.
CREATE FUNCTION bench.run_life(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM gen_durable.run_insert('tenant:tenant 7', name, 'graph', 'sha256:1', 'x', clock_timestamp());
  PERFORM gen_durable.run_commit(c.scope, c.run_id, c.claim_token, c.checkpoint_seq, 'step', 'immediate', 'running', 1, 'x')
    FROM gen_durable.run_claim_due(10, '1 h', 5) c;
  PERFORM gen_durable.run_commit_unclaimed('system', name, (gen_durable.run_fetch('system', name)).checkpoint_seq, 'end', 'terminal', 'done', 2, 'x');
END $$;
