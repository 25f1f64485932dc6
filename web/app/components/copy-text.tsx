import { useState } from 'react'

/** Shows a text, such as a command, with a button that copies it. */
export function CopyText({ label, text }: { label: string; text: string }) {
  const [isCopied, setCopied] = useState(false)
  return (
    <div className="copy-text">
      <p className="small muted">{label}</p>
      <section aria-label={label}>
        <pre>
          <code>{text}</code>
        </pre>
      </section>
      <button
        type="button"
        className="button"
        onClick={() => void navigator.clipboard?.writeText(text).then(() => setCopied(true))}
      >
        {isCopied ? 'Copied' : 'Copy'}
      </button>
    </div>
  )
}
