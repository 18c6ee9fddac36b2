SELECT coalesce('[' || string_agg('{"outcome": "next", "step": "a", "token": "' || token || '"}', ', ') || ']', '[]') AS outcomes
FROM gen_durable.take('bench', 'w', 100) \gset
SELECT count(*) FROM gen_durable.complete_many((:outcomes)::jsonb);
