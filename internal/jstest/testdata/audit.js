// What is wrong with how a page looks and works, as far as a program can tell; the value is a list of complaints.
(() => {
  const complaints = [];
  const name = (e) => `<${e.localName}${e.id && ` id=${e.id}`}> ${(e.textContent || e.name || '').trim().slice(0, 30)}`;
  const parse = (color) => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return { rgb: [r, g, b], a };
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // WCAG 2.2, contrast ratio
  const ratio = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const background = (e) => {
    for (; e; e = e.parentElement) {
      const { rgb, a } = parse(getComputedStyle(e).backgroundColor);
      if (a === 1) return rgb;
      if (a !== 0) complaints.push(`${name(e)}: a background that can be seen through is not understood here`);
    }
    return [255, 255, 255];
  };
  const visible = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true, contentVisibilityAuto: true });

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  for (let node; (node = texts.nextNode()); ) {
    const e = node.parentElement;
    if (!node.data.trim() || !visible(e) || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(e.tagName)) continue;
    seen++;
    const style = getComputedStyle(e);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const is = ratio(parse(style.color).rgb, background(e));
    if (is < least) complaints.push(`${name(e)}: contrast ${is.toFixed(2)}`);
  }
  if (seen < 5) complaints.push(`only ${seen} texts`);

  for (const e of document.querySelectorAll('input:not([type=hidden]):not([type=radio]), select, textarea')) {
    if (!visible(e)) continue;
    const style = getComputedStyle(e);
    if (ratio(parse(style.color).rgb, background(e)) < 4.5) complaints.push(`${name(e)}: contrast of what is typed`);
    if (ratio(parse(style.borderTopColor).rgb, background(e)) < 3) complaints.push(`${name(e)}: contrast of its edge`);
    if (parseFloat(style.fontSize) < 16) complaints.push(`${name(e)}: so small that phones zoom`);
  }

  // Links within text are exempt (2.5.8), as are those of the pages of problems, which are lists of text.
  for (const e of document.querySelectorAll('button, input:not([type=hidden]), select, summary, .top a, footer a, .actions a, a.button')) {
    if (!visible(e)) continue;
    const { width, height } = (e.type === 'radio' ? e.closest('label') : e).getBoundingClientRect();
    if (width < 44 || height < 44) complaints.push(`${name(e)}: ${width.toFixed()}×${height.toFixed()}, less than 44×44`);
  }

  if (document.documentElement.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll('*')].filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5).map(name);
    complaints.push(`scrolls sideways: ${wide.slice(0, 3).join(', ')}`);
  }

  let level = 0;
  for (const e of document.querySelectorAll('h1, h2, h3, h4')) {
    const now = Number(e.localName[1]);
    if (now > level + 1) complaints.push(`${name(e)}: a heading of level ${now} after one of ${level}`);
    level = now;
  }
  if (document.querySelectorAll('h1').length !== 1 || document.querySelectorAll('main').length !== 1) complaints.push('not one h1 and one main');
  for (const id of new Set([...document.querySelectorAll('[id]')].map((e) => e.id))) {
    if (document.querySelectorAll(`[id="${CSS.escape(id)}"]`).length > 1) complaints.push(`the id ${id} is there twice`);
  }
  for (const e of document.querySelectorAll('[aria-labelledby], [aria-describedby], [for]')) {
    for (const id of (e.getAttribute('aria-labelledby') ?? e.getAttribute('aria-describedby') ?? e.getAttribute('for')).split(' ')) {
      if (!document.getElementById(id)) complaints.push(`${name(e)} refers to ${id}, which is not there`);
    }
  }
  return complaints;
})()
