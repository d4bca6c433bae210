-- A version knows how many links and names it was stored with, so that lost rows are noticed.

ALTER TABLE versions
    ADD COLUMN n_edges integer NOT NULL DEFAULT 0,
    ADD COLUMN n_names integer NOT NULL DEFAULT 0;

UPDATE versions v SET n_edges = counted.n
FROM (SELECT version_id, count(*) AS n FROM edges GROUP BY version_id) AS counted
WHERE counted.version_id = v.version_id;

UPDATE versions v SET n_names = counted.n
FROM (SELECT version_id, count(*) AS n FROM names GROUP BY version_id) AS counted
WHERE counted.version_id = v.version_id;
