import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { useSession, useSignOut } from '../session/session.tsx'
import { CommandPalette } from './command-palette.tsx'
import { findNavigationPath, NAVIGATION } from './navigation.ts'
import { useTheme } from './theme.ts'

/** Frame of the app: navigation at the side, or above the page on a phone. */
export function Shell() {
  const [isPaletteOpen, setPaletteOpen] = useState(false)
  useShortcut('k', () => setPaletteOpen(true))
  return (
    <>
      <a className="skip" href="#content">
        Skip to content
      </a>
      <div className="shell">
        <Sidebar onSearch={() => setPaletteOpen(true)} />
        <div className="page">
          <Outlet />
        </div>
      </div>
      {isPaletteOpen && <CommandPalette onClose={() => setPaletteOpen(false)} />}
    </>
  )
}

function Sidebar({ onSearch }: { onSearch: () => void }) {
  const [isOpen, setOpen] = useState(false)
  const path = useRouterState({ select: ({ location }) => location.pathname })
  // biome-ignore lint/correctness/useExhaustiveDependencies: navigation closes the menu on a phone
  useEffect(() => setOpen(false), [path])
  return (
    <header className="sidebar">
      <div className="sidebar-top">
        <Link to="/" className="brand">
          Assay
        </Link>
        <button type="button" className="button menu-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Menu
        </button>
      </div>
      <div className={isOpen ? 'sidebar-body open' : 'sidebar-body'}>
        <button type="button" className="search-button" onClick={onSearch}>
          <span>Search or jump…</span> <kbd>{MODIFIER_KEY}K</kbd>
        </button>
        <Navigation />
        <SessionNote />
      </div>
    </header>
  )
}

function Navigation() {
  const groups = Map.groupBy(NAVIGATION, ({ group }) => group)
  const currentPath = useRouterState({ select: ({ location }) => findNavigationPath(location.pathname) })
  return (
    <nav aria-label="Main">
      {[...groups].map(([group, entries]) => (
        <ul key={group} aria-label={group}>
          {entries.map(({ label, link }) => (
            <li key={label}>
              <Link
                {...link}
                activeOptions={{ exact: true }}
                aria-current={link.to === currentPath ? 'page' : undefined}
              >
                {label}
              </Link>
            </li>
          ))}
        </ul>
      ))}
    </nav>
  )
}

function SessionNote() {
  const { org, permission } = useSession()
  const signOut = useSignOut()
  const [theme, switchTheme] = useTheme()
  return (
    <div className="session-note small">
      <p className="muted">
        {org} · {permission} key
      </p>
      <button type="button" className="link-button" onClick={switchTheme}>
        Theme: {theme}
      </button>
      <button type="button" className="link-button" onClick={() => void signOut()}>
        Sign out
      </button>
    </div>
  )
}

const isAppleDevice = /Mac|iPhone|iPad/.test(navigator.userAgent)
const MODIFIER_KEY = isAppleDevice ? '⌘' : 'Ctrl '

/** Calls `onPress` when a letter is pressed together with Ctrl or Command. */
function useShortcut(letter: string, onPress: () => void): void {
  useEffect(() => {
    const handleKey = (event: KeyboardEvent) => {
      if (event.key !== letter || !(event.metaKey || event.ctrlKey)) return
      event.preventDefault()
      onPress()
    }
    addEventListener('keydown', handleKey)
    return () => removeEventListener('keydown', handleKey)
  })
}
