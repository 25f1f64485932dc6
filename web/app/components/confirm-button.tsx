import { type ReactNode, useState } from 'react'

type ConfirmButtonProps = { label: string; isPending: boolean; onConfirm: () => void; children: ReactNode }

/** A button for what cannot be undone. It asks a second time. */
export function ConfirmButton({ label, isPending, onConfirm, children }: ConfirmButtonProps) {
  const [isAsking, setAsking] = useState(false)
  if (!isAsking)
    return (
      <button type="button" className="button" aria-label={label} onClick={() => setAsking(true)}>
        {children}
      </button>
    )
  return (
    <button
      type="button"
      className="button danger"
      aria-label={`Confirm: ${label}`}
      disabled={isPending}
      onBlur={() => setAsking(false)}
      onClick={() => {
        setAsking(false)
        onConfirm()
      }}
    >
      Really?
    </button>
  )
}
