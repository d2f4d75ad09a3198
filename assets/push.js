// Service worker: shows push messages, and opens the page that one is about. It caches nothing and intercepts nothing.

addEventListener("push", (event) => {
  const told = event.data ? event.data.json() : {};
  const shown = registration.showNotification(told.title ?? "Entente", {
    body: told.body ?? "",
    icon: "/assets/mark.svg",
    // One message about the same page replaces the one before.
    tag: told.path ?? "/inbox",
    data: { path: told.path ?? "/inbox" },
  });
  const badge = told.count > 0 ? navigator.setAppBadge?.(told.count) : undefined;
  event.waitUntil(Promise.allSettled([shown, badge]));
});

addEventListener("notificationclick", (event) => {
  event.notification.close();
  const url = new URL(event.notification.data.path, location.origin);
  // A message leads nowhere else than to this server.
  const path = url.origin === location.origin ? url.href : "/inbox";
  event.waitUntil((async () => {
    const open = await clients.matchAll({ type: "window", includeUncontrolled: true });
    const same = open.find((client) => client.url === path);
    await (same ? same.focus() : clients.openWindow(path));
  })());
});
