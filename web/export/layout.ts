import { html } from 'hono/html'
import { replaceUnsafeCharacters, stripAnsi } from '../../src/platform/terminal-text.ts'
import { formatCount, type Html } from '../components/format.ts'

/**
 * Content security policy of every page. Allows only the stylesheet of the folder. `file:` is needed because a page that
 * was opened from disk has no origin.
 */
const CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'self' file:; base-uri 'none'; form-action 'none'"

type ExportPage = {
  title: string
  /** Path from the page to the root of the export. Empty for a page in the root. */
  root: '' | '../'
  content: Html
}

/** Renders a page of an export. */
export const renderExportPage = ({ title, root, content }: ExportPage): string =>
  String(html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${CONTENT_SECURITY_POLICY}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Assay</title>
<link rel="stylesheet" href="${root}style.css">
</head>
<body>
<header class="top"><span class="brand">Assay</span>${root === '' ? '' : html`<nav aria-label="Main"><a class="quiet" href="${root}index.html">Comparison</a></nav>`}</header>
<main id="content">${content}</main>
<footer class="bottom small"><p>Exported by Assay. The pages contain text of agents and tasks; it is shown as it is and never executed.</p></footer>
</body>
</html>
`)

const TEXT_LENGTH_MAX = 20_000

/**
 * Prepares untrusted text of several lines for a template, which escapes it. Unsafe characters are replaced by their
 * names.
 */
export function toDisplayText(text: string, lengthMax = TEXT_LENGTH_MAX): string {
  const shown = replaceUnsafeCharacters(stripAnsi(text.slice(0, lengthMax)).replaceAll('\r\n', '\n'))
  const cutLength = text.length - lengthMax
  return cutLength > 0 ? `${shown}\n… ${formatCount(cutLength)} more characters` : shown
}

/** Renders untrusted text as a single line. */
export const renderDisplayText = (text: string, lengthMax = 200): Html =>
  html`<bdi>${toDisplayText(text.replaceAll(/\s+/g, ' '), lengthMax)}</bdi>`
