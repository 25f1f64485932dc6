-- The queue's own words: a job has a type, and queued jobs that admission treats alike form a queue class.
alter table jobs rename column kind to type;
alter table jobs rename column lane to queue_class;
