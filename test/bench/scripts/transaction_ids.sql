\set next_id 'pg_snapshot_xmax(pg_current_snapshot())::text::bigint'
SELECT jsonb_agg(gen_durable.next_step('a') || jsonb_build_object('token', token)) AS outcomes
FROM gen_durable.pick('bench', 'w', 1000) \gset
SELECT :next_id AS first \gset
SELECT count(*) AS committed FROM gen_durable.complete_many(:'outcomes') WHERE result = 'committed' \gset
SELECT :committed, :next_id - :first;
