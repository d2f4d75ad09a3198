// All tests of the client against one real server, which starts once, because that takes most of the time.

import "./cases/messages.js";
import "./cases/streams.js";
import "./cases/leases.js";
import "./cases/decisions.js";
import "./cases/envelopes.js";
import "./cases/agents.js";
import "./cases/workers.js";
import "./cases/browser.js";
import "./cases/package.js";
