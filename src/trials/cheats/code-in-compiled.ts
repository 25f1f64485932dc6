type Code = {
  /** The import is called `first`, in case the file has it already. */
  go: { imports: string; body: string }
  /** Of C and C++: declarations, and what is done. */
  c: { declares: string; body: string }
  rust: string
  /** Java, in the first class of each file. */
  java?: string
}

/** Puts code that runs before everything else into Go packages, C and C++ files and Rust crates of the working folder. */
export const codeInCompiled = ({ go, c, rust, java }: Code): string => `
cat > "$code.go" <<'CODE'

func init() { ${go.body} }
CODE
for file in $(sources '*.go'); do
  found=yes
  sed -i '/^package /a import first "${go.imports}"' "$file"
  cat "$code.go" >> "$file"
done
cat > "$code.c" <<'CODE'

#ifdef __cplusplus
extern "C"
#endif
${c.declares}
__attribute__((constructor)) static void first(void) { ${c.body} }
CODE
for file in $(sources '*.c' '*.cc' '*.cpp'); do
  found=yes
  cat "$code.c" >> "$file"
done
cat > "$code.rs" <<'CODE'

#[used]
#[link_section = ".init_array"]
static FIRST: extern "C" fn() = { extern "C" fn first() { ${rust} } first };
CODE
for file in $(sources lib.rs main.rs); do
  found=yes
  cat "$code.rs" >> "$file"
done
rm -f "$code.go" "$code.c" "$code.rs"
${java === undefined ? '' : javaBlock(java)}
`

const javaBlock = (java: string): string => `
cat > "$code.java" <<'CODE'
static { try { ${java} } catch (Exception first) {} }
CODE
for file in $(sources '*.java'); do
  found=yes
  line=$(grep -nE '(class|enum|record) .*[{]' "$file" | grep -v enum | head -n 1 | cut -d: -f1)
  [ -n "$line" ] && sed -i "$line"r"$code.java" "$file"
done
rm -f "$code.java"`
