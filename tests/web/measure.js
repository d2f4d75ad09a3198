// Prints the milliseconds from a request to the whole page, for pages over 1,000 intents, 200 agents, 10,000 jobs and 100,000
// messages, which SQL puts there. Not a test: `node measure.js`, on a machine at rest.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { linkFor, serve } from "./kit.js";

// Ids sort by age as those of the server do.
const id = (n) => `('01900000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`;
const agent = (n) => `'agent.n' || lpad((${n} % 200)::text, 3, '0')`;
const at = (n) => `now() - make_interval(mins => 10000 - (${n} % 10000)::int)`;
const seed = `
INSERT INTO agents (agent_id, principal_id, status, role_id, capabilities, metadata, registered_at, last_heartbeat_at, current_load, tasks_in_progress, version)
  SELECT ${agent("n")}, 'agent.data', 'active', 'worker', '{}', '{}', now(), now(), 1, '{}', 1 FROM generate_series(0, 199) n;
INSERT INTO intents (id, title, description, created_by, depends_on, constraints, state, status, confidence, version, created_at, updated_at)
  SELECT ${id("n")}, 'Matter ' || n, 'What it is about', ${agent("n")}, '{}', '{}', '{}', (ARRAY['draft','active','blocked','completed'])[1 + n % 4], 0, 1, ${at("n")}, ${at("n")} FROM generate_series(1, 1000) n;
INSERT INTO intent_clock (intent_id, last_seq, sequence, last_at) SELECT ${id("n")}, 100, 0, ${at("n")} FROM generate_series(1, 1000) n;
INSERT INTO channels (id, intent_id, name, created_by, members, member_policy, audit, max_messages, status, created_at)
  SELECT ${id("n")}, ${id("n")}, 'talk', ${agent("n")}, '{}', 'intent', false, 10000, 'open', ${at("n")} FROM generate_series(1, 1000) n;
INSERT INTO messages (channel_id, number, id, intent_id, seq, sender, recipient, message_type, payload, created_at)
  SELECT ${id("c")}, n, ${id("c * 1000 + n")}, ${id("c")}, n, ${agent("n")}, '*', 'notify', '{"text":"One of many words"}', ${at("n")}
  FROM generate_series(1, 1000) c, generate_series(1, 100) n;
INSERT INTO pending (channel_id, number, message_id, intent_id, sender, agent_id, is_request)
  SELECT ${id("c")}, 100, ${id("c * 1000 + 100")}, ${id("c")}, ${agent("c")}, ${agent("c * 7 + 3")}, true FROM generate_series(1, 50) c;
INSERT INTO jobs (id, agent, principal, session_id, counted, lease, fingerprint, generation, payers, trace_id, needs_model, on_lost, max_attempts, created_at)
  SELECT ${id("n")}, ${agent("n")} || '@1', 'agent.data', ${id("n")}, false, '{}', sha256('x'), 0, '{}', md5(n::text), false, 'requeue', 1, ${at("n")} FROM generate_series(1, 10000) n;
INSERT INTO job_clock (job_id, agent, status, last_seq, origin_seq, attempt, abandoned, ended_at)
  SELECT ${id("n")}, ${agent("n")} || '@1', CASE WHEN n > 9900 THEN 'pending' WHEN n % 9 = 0 THEN 'error' ELSE 'success' END, 1, 1, 1, '{}', CASE WHEN n <= 9900 THEN ${at("n")} END FROM generate_series(1, 10000) n;
ANALYZE;`;

const server = await serve();
try {
  const owner = process.getuid() === 0 ? ["su", "postgres", "-s", "/bin/sh", "-c"] : ["sh", "-c"];
  const socket = ["run"].map((name) => join(server.data_dir, name)).find((dir) => existsSync(join(dir, ".s.PGSQL.5432")));
  if (!socket) throw new Error(`no socket below ${server.data_dir}`);
  const [program, ...args] = owner;
  const psql = `cd / && psql -q -v ON_ERROR_STOP=1 -h '${socket}' -U entente entente`;
  execFileSync(program, [...args, psql], { input: seed, stdio: ["pipe", "inherit", "inherit"] });
  const login = await fetch(await linkFor(server, "human.ada", true), { method: "POST", redirect: "manual",
    headers: { "sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded" }, body: "" });
  const cookie = login.headers.get("set-cookie").split(";")[0];
  const intent = (await server.researcher.get("/intents?limit=1"))[0]?.id ?? (await server.researcher.get("/intents?limit=1")).intents[0].id;
  const [channel] = [(await server.researcher.get(`/intents/${intent}/channels`))].map((all) => (all.channels ?? all)[0].id);
  const paths = ["/dashboard", "/intents", "/intents?title=matter+7&status=active", `/intents/${intent}`, `/channels/${channel}`, "/agents",
    "/agents?name=n19", "/agent?id=agent.n007", "/jobs", "/jobs?status=error", "/jobs?agent=agent.n007", "/people", "/charts?days=90", "/budgets", "/queues"];
  for (const path of paths) {
    const times = [];
    for (let n = 0; n < 11; n += 1) {
      const start = performance.now();
      const answer = await fetch(server.url + path, { headers: { cookie }, redirect: "manual" });
      const size = (await answer.text()).length;
      times.push(performance.now() - start);
      if (answer.status !== 200 || size < 500) throw new Error(`${path}: ${answer.status}\n${server.log().slice(-2000)}`);
    }
    times.sort((a, b) => a - b);
    console.log(`${path.slice(0, 50).padEnd(50)} median ${times[5].toFixed(0).padStart(5)} ms, slowest ${times[10].toFixed(0).padStart(5)} ms`);
  }
} finally {
  await server.stop();
}
