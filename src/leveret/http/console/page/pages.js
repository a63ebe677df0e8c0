// Every page: its address, its name, where it stands in the menu, and the tag that it needs. A page without a `group`
// is not in the menu; `under` is the entry of the menu that it belongs to.

export const PAGES = [
  { path: "/", name: "Overview", group: "Broker", tag: "management", load: () => import("./pages/overview.js") },
  { path: "/queues", name: "Queues", group: "Broker", tag: "management", load: () => import("./pages/queues.js") },
  {
    path: "/queues/:vhost/:queue",
    name: "Queue",
    under: "/queues",
    tag: "management",
    load: () => import("./pages/queue.js"),
  },
  {
    path: "/streams",
    name: "Streams",
    group: "Broker",
    tag: "management",
    load: () => import("./pages/streams.js"),
  },
  {
    path: "/streams/:vhost/:stream",
    name: "Stream",
    under: "/streams",
    tag: "management",
    load: () => import("./pages/stream.js"),
  },
  {
    path: "/exchanges",
    name: "Exchanges",
    group: "Broker",
    tag: "management",
    load: () => import("./pages/exchanges.js"),
  },
  {
    path: "/exchanges/:vhost/:exchange",
    name: "Exchange",
    under: "/exchanges",
    tag: "management",
    load: () => import("./pages/exchange.js"),
  },
  {
    path: "/connections",
    name: "Connections",
    group: "Clients",
    tag: "management",
    load: () => import("./pages/connections.js"),
  },
  {
    path: "/connections/:connection",
    name: "Connection",
    under: "/connections",
    tag: "management",
    load: () => import("./pages/connection.js"),
  },
  {
    path: "/channels",
    name: "Channels",
    group: "Clients",
    tag: "management",
    load: () => import("./pages/channels.js"),
  },
  {
    path: "/users",
    name: "Users",
    group: "Administration",
    tag: "administrator",
    load: () => import("./pages/users.js"),
  },
  {
    path: "/users/:user",
    name: "User",
    under: "/users",
    tag: "administrator",
    load: () => import("./pages/user.js"),
  },
  {
    path: "/policies",
    name: "Policies",
    group: "Administration",
    tag: "management",
    load: () => import("./pages/policies.js"),
  },
];
