SELECT coalesce('[' || string_agg('{"outcome": "next", "step": "a", "rate_limit": "rate", "token": "' || token || '"}', ', ') || ']', '[]') AS outcomes
FROM gen_durable.pick('bench', 'w', 100) \gset
SELECT count(*) FROM gen_durable.complete_many((:outcomes)::jsonb);
