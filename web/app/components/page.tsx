import { memo, type ReactNode, useEffect, useRef } from 'react'

type PageProps = {
  title: string
  /** Line above the title that says where the page belongs. */
  crumbs?: ReactNode
  /** Chips beside the title. */
  state?: ReactNode
  /** Buttons at the right. Leave out those that the session may not use. */
  actions?: ReactNode
  children: ReactNode
}

/** True after the first page was shown. On the first page, the browser chooses the focused element. */
let hasShownPage = false

/** Frame of every page: breadcrumbs, title with state and actions, content. */
export function Page({ title, crumbs, state, actions, children }: PageProps) {
  const main = useRef<HTMLElement>(null)
  useEffect(() => {
    // The link that was clicked is often no longer in the document. Without focus in the new page, Tab would start above it.
    const isFocusLost = document.activeElement === document.body
    if (hasShownPage && isFocusLost) main.current?.focus({ preventScroll: true })
    hasShownPage = true
  }, [])
  return (
    <main ref={main} id="content" tabIndex={-1}>
      <DocumentTitle title={title} />
      <header className="page-head">
        <div>
          {crumbs && <p className="crumbs">{crumbs}</p>}
          <div className="title-line">
            <h1>{title}</h1>
            {state}
          </div>
        </div>
        {actions && <div className="actions">{actions}</div>}
      </header>
      {children}
    </main>
  )
}

/** Memoized, because React searches the head of the document whenever it renders a title. */
const DocumentTitle = memo(({ title }: { title: string }) => <title>{`${title} · Assay`}</title>)

type CardProps = { title?: string; actions?: ReactNode; className?: string; children: ReactNode }

/** A framed section with an optional heading. Cards are not nested. */
export function Card({ title, actions, className, children }: CardProps) {
  return (
    <section className={className ? `card ${className}` : 'card'}>
      {title && (
        <header className="card-head">
          <h2>{title}</h2>
          {actions && <div className="actions">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  )
}

type FactProps = { label: string; value: ReactNode; note?: ReactNode; children?: ReactNode }

/** An answer card: one number or name, and a note that qualifies it. */
export function Fact({ label, value, note, children }: FactProps) {
  return (
    <section className="card fact">
      <div className="fact-body">
        <h2 className="label">{label}</h2>
        <p className="value">{value}</p>
        {note && <p className="note">{note}</p>}
        {children}
      </div>
    </section>
  )
}

type EmptyProps = { children: ReactNode; command?: string }

/** An empty state: what will appear here, and the command that produces it. */
export function Empty({ children, command }: EmptyProps) {
  return (
    <div className="empty">
      <p>{children}</p>
      {command && (
        <pre>
          <code>{command}</code>
        </pre>
      )}
    </div>
  )
}
