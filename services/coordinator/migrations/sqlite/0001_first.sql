CREATE TABLE workspaces (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    -- The feed's latest revision; moved by the transaction that writes the outbox.
    revision BIGINT NOT NULL,
    -- Events up to here are gone from the outbox.
    compacted BIGINT NOT NULL
);
INSERT INTO workspaces (id, name, revision, compacted) VALUES ('main', 'main', 0, 0);

CREATE TABLE hosts (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    doc TEXT NOT NULL
);

CREATE TABLE tasks (
    id TEXT NOT NULL PRIMARY KEY,
    workspace TEXT NOT NULL REFERENCES workspaces (id),
    version BIGINT NOT NULL,
    client_key TEXT,
    phase TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    doc TEXT NOT NULL
);
CREATE UNIQUE INDEX tasks_by_client_key ON tasks (workspace, client_key)
    WHERE client_key IS NOT NULL;
CREATE INDEX tasks_by_creation ON tasks (workspace, created_at, id);
CREATE INDEX tasks_by_phase ON tasks (workspace, phase, created_at, id);
CREATE INDEX tasks_by_id ON tasks (workspace, id);

CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    workspace TEXT NOT NULL REFERENCES workspaces (id),
    version BIGINT NOT NULL,
    client_key TEXT,
    task TEXT,
    host TEXT NOT NULL,
    live BOOLEAN NOT NULL,
    internal BOOLEAN NOT NULL,
    archived BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    doc TEXT NOT NULL
);
CREATE UNIQUE INDEX sessions_by_client_key ON sessions (workspace, client_key)
    WHERE client_key IS NOT NULL;
CREATE INDEX sessions_by_creation ON sessions (workspace, created_at, id);
CREATE INDEX sessions_by_task ON sessions (task, created_at, id) WHERE task IS NOT NULL;
CREATE INDEX sessions_live ON sessions (workspace, created_at, id) WHERE live;
CREATE INDEX sessions_by_id ON sessions (workspace, id);

CREATE TABLE turns (
    id TEXT NOT NULL PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (id),
    run BIGINT NOT NULL,
    began_offset BIGINT NOT NULL,
    began_at BIGINT NOT NULL,
    doc TEXT NOT NULL
);
CREATE INDEX turns_by_place ON turns (session, run, began_offset, began_at, id);

CREATE TABLE messages (
    id TEXT NOT NULL PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (id),
    run BIGINT NOT NULL,
    at_offset BIGINT NOT NULL,
    idx BIGINT NOT NULL,
    -- Order of acceptance of what was said; 0 for what was printed.
    sequence BIGINT NOT NULL,
    client_key TEXT,
    -- Its delivery is not final.
    waits BOOLEAN NOT NULL,
    complete BOOLEAN NOT NULL,
    -- Bytes of text that stand in chunks.
    chunked BIGINT NOT NULL,
    doc TEXT NOT NULL
);
CREATE UNIQUE INDEX messages_by_client_key ON messages (session, client_key)
    WHERE client_key IS NOT NULL;
CREATE INDEX messages_by_place ON messages (session, run, at_offset, idx, sequence, id);
CREATE INDEX messages_waiting ON messages (session, sequence) WHERE waits;
CREATE INDEX messages_growing ON messages (session) WHERE NOT complete;

CREATE TABLE chunks (
    message TEXT NOT NULL REFERENCES messages (id),
    from_byte BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (message, from_byte)
);

CREATE TABLE deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (id),
    run BIGINT NOT NULL,
    -- Nobody has said how it ended.
    is_open BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    payload BLOB NOT NULL,
    doc TEXT NOT NULL
);
CREATE INDEX deliveries_open ON deliveries (session, created_at, id) WHERE is_open;

CREATE TABLE outbox (
    workspace TEXT NOT NULL REFERENCES workspaces (id),
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    events TEXT NOT NULL,
    PRIMARY KEY (workspace, revision)
);
