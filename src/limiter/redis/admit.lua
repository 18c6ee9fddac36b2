-- Decides a batch: of each key a prefix, and of each entry all or nothing.
--
-- KEYS[2..] the keys of the batch. ARGV[3] their number n; then for each its kind (g or r), capacity, and rate; then for
-- each entry the place of its gate and of its rate limit among the keys (0: none), and its weight.
-- Returns for each entry the ticket of its slot; 0: admitted without a slot; -1: no slot; -2: too few tokens.
local limits, answer = {}, {}
local a = 4
for i = 1, tonumber(ARGV[3]) do
  local limit = { key = KEYS[i + 1], gate = ARGV[a] == 'g', capacity = tonumber(ARGV[a + 1]),
    rate = tonumber(ARGV[a + 2]), used = 0 }
  if limit.gate then
    limit.free = slots(limit.key, limit.capacity)
  else
    limit.free, limit.at = tokens(limit.key, limit.capacity, limit.rate)
  end
  limits[i] = limit
  a = a + 3
end

-- Once one entry does not fit, none behind it does. A part in a billion is a rounding error.
local function fits(limit, cost)
  if not limit then return true end
  local slack = limit.gate and 0 or limit.capacity * 1e-9
  limit.stopped = limit.stopped or limit.used + cost > limit.free + slack
  return not limit.stopped
end

local function ticket(key)
  local drawn
  repeat
    drawn = redis.call('HINCRBY', era, 'ticket', 1)
    if drawn > 2147483646 then
      redis.call('HSET', era, 'ticket', 1)
      drawn = 1
    end
  until not redis.call('ZSCORE', key, drawn)
  return drawn
end

while a + 2 <= #ARGV do
  local gate, rate = limits[tonumber(ARGV[a])], limits[tonumber(ARGV[a + 1])]
  local weight = tonumber(ARGV[a + 2])
  local verdict = 0
  if not fits(gate, 1) then
    verdict = -1
  elseif not fits(rate, weight) then
    verdict = -2
  else
    if rate then rate.used = rate.used + weight end
    if gate then
      gate.used = gate.used + 1
      verdict = ticket(gate.key)
      hold(gate.key, verdict)
    end
  end
  answer[#answer + 1] = verdict
  a = a + 3
end

for _, limit in ipairs(limits) do
  if not limit.gate and limit.used > 0 then
    redis.call('HSET', limit.key, 'tokens', string.format('%.17g', math.max(0, limit.free - limit.used)), 'at', whole(limit.at))
    redis.call('PEXPIRE', limit.key, whole(math.min(math.ceil(limit.capacity / limit.rate), 3e9) * 1000 + 1000))
  end
end
return answer
