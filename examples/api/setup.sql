-- Limits for an API that lets in 100 calls in any minute and 3 at once, and a machine whose step is a call to it.
--
-- A bucket that was full gives its burst at once, and what the rate brings goes on coming: in a minute, the burst and the
-- allowed together. So the two share the 100. A few calls are left over, because a step is not on the wire at the very
-- moment of its claim: one may be late, and fall into the same minute with others that are not.

SELECT gen_durable.set_rate_limit('api', allowed => 80, period => '1 min', burst => 15);
SELECT gen_durable.set_concurrency_limit('api', 3);
SELECT gen_durable.register_fsm('call', queue => 'calls', initial => 'send');
