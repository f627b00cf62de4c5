// The choice of colours, before anything is drawn: "auto" follows the system.
"use strict";
(() => {
  const root = document.documentElement;
  const read = () => {
    try {
      return localStorage.getItem("weir.theme") || "auto";
    } catch {
      return "auto"; // storage may be forbidden
    }
  };
  const show = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  show(read());
  document.addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    select.value = root.dataset.theme || "auto";
    select.addEventListener("change", () => {
      show(select.value);
      try {
        localStorage.setItem("weir.theme", select.value);
      } catch {
        // It holds until the page is left.
      }
    });
  });
})();
