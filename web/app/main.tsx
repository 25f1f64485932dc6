import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import './styles.css'
import { preloadPage, router } from './router.tsx'
import { SessionGate } from './session/session.tsx'
import { applyTheme } from './shell/theme.ts'

applyTheme()
// A page that was loaded before a new build refers to files that the build has replaced.
addEventListener('vite:preloadError', () => location.reload())
preloadPage()

const container = document.getElementById('root')
if (!container) throw new Error('The page has no element #root.')
createRoot(container).render(
  <StrictMode>
    <SessionGate>
      <RouterProvider router={router} />
    </SessionGate>
  </StrictMode>,
)
