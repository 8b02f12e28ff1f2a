// Applies the chosen theme before the first paint; "light", "dark", or what the system prefers.
try {
  document.documentElement.dataset.theme = localStorage.getItem("seriatim.theme") || "system";
} catch {
  document.documentElement.dataset.theme = "system";
}
