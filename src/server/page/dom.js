// Elements. Text becomes text nodes and attributes here, never HTML.

export const byId = (id) => document.getElementById(id);

const attach = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === 'function') element.addEventListener(name, value);
        else if (value === true) element.setAttribute(name, '');
        else if (value !== false && value != null) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
};

// An element with attributes (functions: what listens to an event of that name) and children.
export const make = (tag, attributes = {}, ...children) =>
    attach(document.createElement(tag), attributes, children);

export const makeSvg = (tag, attributes = {}, ...children) =>
    attach(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

export const button = (text, click, attributes = {}) =>
    make('button', { type: 'button', click, ...attributes }, text);
