// Short names for the objects of the API.

import type { JsonObject, Schemas } from "./core.js";

export type Intent = Schemas["IntentBody"];
export type NewIntent = Schemas["NewIntent"];
export type ChannelRecord = Schemas["ChannelBody"];
export type Message<P = JsonObject> = Omit<Schemas["MessageBody"], "payload"> & { payload: P };
export type LogEvent = Schemas["EventBody"];
export type InboxEntry = Schemas["InboxEntry"];
export type InboxPage = Schemas["InboxPage"];
export type Turn = Schemas["Turn"];
export type TurnTaken = Schemas["TurnTaken"];
export type Task = Schemas["TaskBody"];
export type NewTask = Schemas["NewTask"];
export type LeaseRecord = Schemas["Lease"];
export type Moment = Schemas["Moment"];
export type Budget = Schemas["Budget"];
export type JobRecord = Schemas["JobBody"];
export type ClaimedJob = Schemas["ClaimedJob"];
