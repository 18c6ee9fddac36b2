\if :first
SELECT jsonb_agg(job) AS jobs FROM gen_durable.pick('bench', 'w', 1) job \gset
\set first 0
\endif
CALL gen_durable.commit_and_take(
  ('[{"outcome": "next", "step": "a", "token": "' || ((:jobs)::jsonb #>> '{0,token}') || '"}]')::jsonb, 'bench', 'w', 1) \gset
