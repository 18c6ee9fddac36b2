CALL gen_durable.wait('{bench}', '10 s');
SELECT id FROM gen_durable.take('bench', 'w') \gset
INSERT INTO bench.latency
SELECT extract(epoch FROM clock_timestamp() - pg_xact_commit_timestamp(xmin)) * 1000 FROM bench.inserted WHERE id = :id;
