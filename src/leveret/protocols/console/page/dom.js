// Elements from functions: h("a", { href: "#/" }, "Overview").

/**
 * Make an element. Attributes that begin with "on" are listeners, `styles` are properties of its style (an attribute
 * would be refused by the content policy); null and false are left out.
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...any} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "styles") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...flat(children));
  return element;
}

/**
 * Make an element of a drawing; attributes as they are.
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...any} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...flat(children));
  return element;
}

/** Children as nodes and text, without what is nothing. */
function flat(children) {
  return children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false);
}

/**
 * Put new children into an element; if nothing is different, nothing is touched, and the focus stays.
 * @param {Element} element
 * @param {...any} children
 */
export function fill(element, ...children) {
  const fresh = h(element.tagName, {}, ...children);
  const same = fresh.childNodes.length === element.childNodes.length;
  if (same && [...fresh.childNodes].every((node, index) => node.isEqualNode(element.childNodes[index]))) return;
  element.replaceChildren(...fresh.childNodes);
}

let lastId = 0;

/** A name that no other element has, to tie a label to its field. */
export function freshId(prefix = "id") {
  lastId += 1;
  return `${prefix}-${lastId}`;
}
