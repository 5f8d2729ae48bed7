// Elements of the page.

const by = (id) => document.getElementById(id);

/** An element with attributes and children; texts are never parsed as HTML. */
function el(tag, attrs, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attrs || {})) {
    if (key === "onclick") node.addEventListener("click", value);
    else if (key === "style") node.style.cssText = value;
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child != null));
  return node;
}

const quiet = (text) => el("p", {class: "quiet"}, text);
const isPhone = () => matchMedia("(max-width: 800px)").matches;
