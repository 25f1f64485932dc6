#!/bin/bash
cat > /app/greet.sh <<'SCRIPT'
#!/bin/bash
printf 'Hello, %s!\n' "${1:-world}"
SCRIPT
chmod +x /app/greet.sh
