// Progressive enhancement: theme, copy buttons, sorting without a reload. Every page works without this script.
const THEMES = ['system', 'light', 'dark']

function readTheme() {
  try {
    const stored = localStorage.getItem('theme')
    return THEMES.includes(stored) ? stored : 'system'
  } catch {
    return 'system'
  }
}

function applyTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

// Runs before the page is painted, so that it does not flash in the other theme.
applyTheme(readTheme())

function enableThemeButton(button) {
  let theme = readTheme()
  const showTheme = () => {
    button.textContent = `Theme: ${theme}`
  }
  button.hidden = false
  showTheme()
  button.addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]
    try {
      localStorage.setItem('theme', theme)
    } catch {
      // The browser may deny storage. The choice then lasts for this page only.
    }
    applyTheme(theme)
    showTheme()
  })
}

const COPIED_MS = 1500

function enableCopyButton(button) {
  if (!navigator.clipboard) return
  const label = button.innerHTML
  button.hidden = false
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent)
    button.textContent = 'Copied'
    setTimeout(() => {
      button.innerHTML = label
    }, COPIED_MS)
  })
}

function sortRows(table, field) {
  const link = table.querySelector(`[data-sort="${CSS.escape(field)}"]`)
  if (!link) return
  const rows = [...table.tBodies[0].rows]
  const compare = (key, a, b) => Number(a.dataset[key]) - Number(b.dataset[key])
  rows.sort((a, b) => compare(field, a, b) || compare('solved', a, b) || compare('cost', a, b))
  table.tBodies[0].append(...rows)
  for (const header of table.tHead.rows[0].cells) header.removeAttribute('aria-sort')
  const header = link.closest('th')
  header.setAttribute('aria-sort', header.dataset.direction)
}

function enableSorting(table) {
  table.addEventListener('click', (event) => {
    const link = event.target.closest('[data-sort]')
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    sortRows(table, link.dataset.sort)
    history.pushState(null, '', link.href)
  })
  window.addEventListener('popstate', () => {
    sortRows(table, new URLSearchParams(location.search).get('sort') ?? 'rank')
  })
}

document.addEventListener('DOMContentLoaded', () => {
  for (const button of document.querySelectorAll('[data-theme-button]')) enableThemeButton(button)
  for (const button of document.querySelectorAll('[data-copy]')) enableCopyButton(button)
  for (const table of document.querySelectorAll('[data-sortable]')) enableSorting(table)
})
