-- Calibrations name the version of the rules that they were made by; those of older rules are made again. `carried`
-- lists the paths outside the working directory that the reference solution changed: mode snapshot carries no others.
alter table task_calibrations
  add column rules integer not null default 1,
  add column carried text[] not null default '{}';
alter table task_calibrations alter column rules drop default, alter column carried drop default;

-- Strengths found with the earlier cheats say too little.
update benchmark_tasks set calibration = null where calibration is not null;
