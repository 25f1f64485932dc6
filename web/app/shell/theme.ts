import { useState } from 'react'

const THEMES = ['system', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

/** Key in the local storage of the browser. The public pages read it too. */
const STORAGE_KEY = 'theme'

function readTheme(): Theme {
  try {
    const stored = localStorage.getItem(STORAGE_KEY)
    return THEMES.find((theme) => theme === stored) ?? 'system'
  } catch {
    return 'system'
  }
}

export function applyTheme(theme: Theme = readTheme()): void {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

/** Returns the theme and a function that switches to the next one. */
export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState(readTheme)
  const switchTheme = () => {
    const nextTheme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'system'
    try {
      localStorage.setItem(STORAGE_KEY, nextTheme)
    } catch {
      // The browser may deny storage. The choice then lasts until the page is closed.
    }
    applyTheme(nextTheme)
    setTheme(nextTheme)
  }
  return [theme, switchTheme]
}
