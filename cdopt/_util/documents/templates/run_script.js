const CDOPT = {{ content|tojson }};
{{ source("run.js") }}
